"""Faults that people reported, tried on hand-written loops; the shared loop has none.

One test a report, with its address. Left out, as they need two processes: A10, A11,
A12, C02, D08, D10, D11, D13, D14, and the communication of D06.
"""

from __future__ import annotations

import weakref
from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from helpers import equivalence, training
from tests import toys

EXACT = 1e-12


def upstream(fault, right, what):
    """The fault is there; or it is not, which is said; anything else fails."""
    if right and not fault:
        pytest.skip(f"fixed upstream, or older than the fault: {what}")
    assert fault, f"neither the fault nor the right result: {what}"


def accumulated(net, batches, weight=None):
    """Backward on each mean loss times `weight` (1/k), as hand-written loops do it."""
    net.zero_grad()
    weight = 1 / len(batches) if weight is None else weight
    for batch in batches:
        (net(**batch).loss * weight).backward()
    return net


def compared(net, batches):
    return equivalence.compare(net, equivalence.reference(net, batches))


def flat(net):
    return torch.cat([p.grad.flatten() for p in net.parameters()])


def weights(net):
    return torch.nn.utils.parameters_to_vector(net.parameters()).detach().clone()


def far(net, wanted, start):
    return ((weights(net) - wanted).norm() / (wanted - start).norm()).item()


def shared_gradient(net, batches):
    """What the shared loop leaves in `.grad`."""
    net.zero_grad()
    training.accumulate(net, batches)
    return compared(net, batches)


def shared_loop(batches, **options):
    """The shared loop over windows of four: (model, watch, history)."""
    net = toys.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    options |= {"optimizer": optimizer, "accumulation_steps": 4, "progress": False}
    with equivalence.watch(net, optimizer, training.windows(batches, 4)) as seen:
        history = training.train(net, batches, **options)
    return net, seen, history


@pytest.mark.parametrize("counts", [(12, 14, 16, 22), (4, 8, 16, 36), (1, 1, 2, 60)])
def test_a02_the_mean_of_token_means_is_not_the_token_mean(counts):
    """https://github.com/huggingface/transformers/pull/34191"""
    net = toys.model()
    batches = toys.cut(toys.tokens(counts, longest=max(counts)), 1)
    found = compared(accumulated(net, batches), batches).relative_error
    assert found > 0.05
    assert shared_gradient(net, batches).relative_error < EXACT
    net.zero_grad()
    for batch in batches:
        outputs = (net(**batch).logits,)
        equivalence.summed_cross_entropy(outputs, batch["labels"], 64).backward()
    assert compared(net, batches).relative_error < EXACT


@contextmanager
def held():
    """Bytes that autograd keeps for backward: [now, at most]."""
    size = [0, 0]

    class Saved:
        def __init__(self, tensor):
            self.tensor = tensor

    def let_go(count):
        size[0] -= count

    def pack(tensor):
        saved, count = Saved(tensor), tensor.nbytes
        size[:] = size[0] + count, max(size[1], size[0] + count)
        weakref.finalize(saved, let_go, count)
        return saved

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.tensor):
        yield size


def test_a13_one_backward_at_the_end_of_the_window_holds_all_activations():
    """https://github.com/meta-pytorch/torchtune/pull/1875"""

    def at_most(k, at_end):
        net, batches = toys.model(), toys.cut(toys.rows(4 * k), 4)
        with held() as size:
            if at_end:
                (sum(net(**batch).loss for batch in batches) / k).backward()
            else:
                training.accumulate(net, batches)
        assert compared(net, batches).relative_error < EXACT
        return size[1]

    assert at_most(8, at_end=True) > 7 * at_most(1, at_end=True)
    assert at_most(8, at_end=False) == at_most(1, at_end=False)


def test_a15_in_batch_negatives_see_the_micro_batch_alone():
    """https://github.com/huggingface/sentence-transformers/issues/2916"""
    torch.manual_seed(0)
    net = nn.Linear(6, 8).double()
    x, y = torch.randn(2, 32, 6, dtype=torch.float64)

    def loss(a, b):
        return cross_entropy(a @ b.T, torch.arange(len(a)))

    def gradient(k):
        net.zero_grad()
        for rows, others in zip(x.chunk(k), y.chunk(k), strict=True):
            (loss(net(rows), net(others)) / k).backward()
        return flat(net)

    whole = gradient(1)
    errors = [((gradient(k) - whole).norm() / whole.norm()).item() for k in (2, 8, 32)]
    assert 0.1 < errors[0] < errors[1]
    assert errors[2] == 1 and not gradient(32).any()  # one row has no negatives
    # Exact needs all embeddings first, and their gradients (GradCache).
    with torch.no_grad():
        first, second = net(x), net(y)
    first.requires_grad_(), second.requires_grad_()
    loss(first, second).backward()
    net.zero_grad()
    for i in range(0, 32, 8):
        part = slice(i, i + 8)
        (net(x[part]) * first.grad[part]).sum().backward()
        (net(y[part]) * second.grad[part]).sum().backward()
    assert (flat(net) - whole).norm() < EXACT * whole.norm()


def test_a17_a_micro_batch_without_a_target():
    """https://github.com/karpathy/nanochat/pull/623"""
    net, batches = toys.model(), toys.cut(toys.tokens([0, 3, 5, 2]), 1)
    assert shared_gradient(net, batches).relative_error < EXACT
    logits = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    labels = torch.full((4,), -100)
    share = equivalence.summed_cross_entropy((logits,), labels, 10)
    assert share == 0 and equivalence.summed_cross_entropy((logits,), labels) == 0

    mask = (labels != -100).double()
    picked = -logits.log_softmax(-1)[torch.arange(4), labels.clamp(min=0)]
    ((picked * mask).sum() / mask.sum()).backward()
    assert logits.grad.isnan().all()  # by hand: 0 / 0 in the gradient too
    logits.grad = None
    loss = cross_entropy(logits, labels)
    loss.backward()
    assert not logits.grad.any()
    upstream(loss.isnan(), loss == 0, "the mean loss over no target is NaN")


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
def test_b03_b07_a_tail_that_is_dropped_and_a_schedule_by_micro_batches():
    """https://github.com/huggingface/transformers/issues/14309
    https://github.com/tracel-ai/burn/issues/5695
    """

    def run(net, batches, k, seen, tail):
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda u: max(0, 1 - u / 8))
        for i, batch in enumerate(batches):
            (net(**batch).loss / k).backward()
            if (i + 1) % k == 0:
                seen.append(plan.get_last_lr()[0])
                optimizer.step()
                optimizer.zero_grad()
            if not tail:
                plan.step()

    rates = []
    run(toys.model(), toys.cut(toys.rows(32), 1), 4, rates, tail=False)
    assert rates == [0.625, 0.125, 0, 0, 0, 0, 0, 0]

    lossy, batches, rates = toys.model(), toys.cut(toys.rows(20), 2), []
    run(lossy, batches, 4, rates, tail=True)
    net, seen, history = shared_loop(batches)
    assert len(rates) == 2 and len(history.updates) == 3 and seen.exact
    assert far(lossy, weights(net), weights(toys.model())) > 0.1


def test_c05_clip_eps_and_decay_expose_a_missing_division_that_adam_hides():
    """https://github.com/karpathy/nanoGPT/issues/168"""
    net, batches = toys.model(), toys.cut(toys.rows(16), 4)
    limit = 2 * flat(accumulated(net, batches)).norm()
    nn.utils.clip_grad_norm_(net.parameters(), limit)
    assert compared(net, batches).relative_error < EXACT  # a limit out of reach
    accumulated(net, batches, weight=1)
    nn.utils.clip_grad_norm_(net.parameters(), limit)
    assert compared(net, batches).ratio == pytest.approx(2, rel=1e-4)  # and now not

    def run(make, weight, clip=None):
        net = toys.model()
        optimizer = make(net.parameters())
        for _ in range(20):
            accumulated(net, batches, weight)
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), clip)
            optimizer.step()
        return net

    def error(make, **options):
        right = weights(run(make, 1 / 4, **options))
        return far(run(make, 1, **options), right, weights(toys.model()))

    optim = torch.optim
    assert error(lambda p: optim.SGD(p, lr=0.1)) > 0.5
    assert error(lambda p: optim.Adam(p, lr=0.01)) < 1e-4
    assert error(lambda p: optim.Adam(p, lr=0.01, eps=1e-3)) > 1e-3
    assert error(lambda p: optim.Adam(p, lr=0.01, weight_decay=0.1)) > 1e-2
    assert error(lambda p: optim.AdamW(p, lr=0.01), clip=0.5) > 1e-3


def test_e13_the_loss_of_a_window_is_the_sum_of_its_shares():
    """https://github.com/espnet/espnet/issues/5090"""
    batches = toys.cut(toys.rows(16), 4)
    whole = equivalence.reference(toys.model(), batches).loss
    parts = [toys.model()(**batch).loss.item() for batch in batches]
    assert sum(part / 4 for part in parts) == pytest.approx(whole, abs=EXACT)
    assert parts[-1] / 4 < whole / 2 and sum(parts) > 3 * whole
    history = shared_loop(batches)[2]
    assert history.updates[0].loss == pytest.approx(whole, abs=EXACT)
