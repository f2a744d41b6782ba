"""The shared loop against the reference, to 1e-12 in float64."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import equivalence, training
from tests import toys

EXACT = 1e-12


def run(net, batches, k, lr=0.1, optimizer=None, **options):
    """Train and return (history, one comparison with the reference an update)."""
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=lr)
    epochs = options.get("epochs", 1)
    windows = list(training.windows(batches, k)) * epochs
    with equivalence.watch(net, optimizer, windows) as seen:
        history = training.train(
            net,
            batches,
            optimizer=optimizer,
            accumulation_steps=k,
            progress=False,
            **options,
        )
    return history, seen.comparisons


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 40), size=st.integers(1, 12), k=st.integers(1, 8))
def test_every_shape_of_window_is_exact(n, size, k):
    net, batches = toys.model(), toys.cut(toys.rows(n), size)
    history, seen = run(net, batches, k)
    assert len(seen) == len(history.updates) == math.ceil(math.ceil(n / size) / k)
    assert max(c.relative_error for c in seen) < EXACT
    assert sum(u.targets for u in history.updates) == n


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(0, 6), min_size=1, max_size=12).filter(any),
    size=st.integers(1, 4),
)
def test_unequal_and_fully_masked_micro_batches_are_exact(counts, size):
    net, batches = toys.model(), toys.cut(toys.tokens(counts), size)
    history, seen = run(net, batches, k=len(batches))
    assert seen[0].relative_error < EXACT
    assert history.updates[0].targets == sum(counts)


@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 40), k=st.integers(1, 8), size=st.integers(1, 12))
def test_the_history_holds_the_full_batch_loss(n, k, size):
    net, batches = toys.model(), toys.cut(toys.rows(n), size)
    expected = []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    windows = training.windows(batches, k)
    optimizer.register_step_pre_hook(
        lambda *_: expected.append(equivalence.reference(net, next(windows)).loss)
    )
    history, _ = run(net, batches, k, optimizer=optimizer)
    assert [u.loss for u in history.updates] == pytest.approx(expected, abs=EXACT)


def test_nothing_leaks_across_epochs():
    batches = toys.cut(toys.rows(10), 2)  # 5 micro-batches: windows of 4 and 1
    _, seen = run(toys.model(), batches, k=4, epochs=3)
    assert len(seen) == 6 and max(c.relative_error for c in seen) < EXACT


def test_the_weights_end_where_the_full_batches_lead():
    whole, accumulated = toys.model(), toys.model()
    run(whole, toys.cut(toys.rows(22), 8), k=1, epochs=3)
    run(accumulated, toys.cut(toys.rows(22), 2), k=4, epochs=3)
    for a, b in zip(whole.parameters(), accumulated.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=EXACT)


@pytest.mark.parametrize("k", [1, 3, 8])
def test_clipping_acts_once_on_the_gradient_of_the_window(k):
    net, batches = toys.model(), toys.cut(toys.rows(16), 2)
    first = next(training.windows(batches, k))
    ref = torch.cat(
        [g.flatten() for g in equivalence.reference(net, first).gradient.values()]
    )
    limit = ref.norm().item() / 3
    before = torch.nn.utils.parameters_to_vector(net.parameters()).detach().clone()
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    history = training.train(
        net,
        first,
        optimizer=optimizer,
        accumulation_steps=k,
        max_norm=limit,
        progress=False,
    )
    moved = before - torch.nn.utils.parameters_to_vector(net.parameters()).detach()
    clipped = ref * limit / (ref.norm() + 1e-6)  # torch adds 1e-6 to the norm
    assert torch.allclose(moved, clipped, rtol=0, atol=EXACT)
    assert history.updates[0].gradient_norm == pytest.approx(ref.norm().item())


def test_the_scheduler_steps_once_an_update_and_ends_at_zero():
    net, batches = toys.model(), toys.cut(toys.rows(20), 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    updates = 2 * math.ceil(10 / 4)
    plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda u: 1 - u / updates)
    history, _ = run(net, batches, 4, optimizer=optimizer, scheduler=plan, epochs=2)
    rates = [u.learning_rate for u in history.updates]
    assert rates == pytest.approx([1 - u / updates for u in range(updates)])
    assert plan.get_last_lr() == [0.0]


def test_fp16_with_its_scaler_on_the_cpu():
    net, batches = toys.model().float(), toys.cut(toys.rows(12), 3)
    batches = [b | {"x": b["x"].float()} for b in batches]
    ref = equivalence.reference(net, batches)
    before = torch.nn.utils.parameters_to_vector(net.parameters()).detach().clone()
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    history = training.train(
        net,
        batches,
        optimizer=optimizer,
        accumulation_steps=4,
        autocast=torch.float16,
        max_norm=1e9,
        progress=False,
    )
    moved = before - torch.nn.utils.parameters_to_vector(net.parameters()).detach()
    whole = torch.cat([g.flatten() for g in ref.gradient.values()])
    assert (moved - whole).norm() < 5e-3 * whole.norm()  # half precision: 11 bits
    assert history.updates[0].gradient_norm == pytest.approx(
        whole.norm().item(), rel=5e-3
    )


def test_an_overflow_in_fp16_makes_no_step_and_no_step_of_the_schedule():
    net = toys.model().float()
    batch = {"x": torch.full((2, 5), 1e3), "labels": torch.tensor([0, 1])}
    with torch.no_grad():
        net.head.weight.mul_(1e4)
    before = [p.clone() for p in net.parameters()]
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda u: 0.5**u)
    training.train(
        net,
        [batch],
        optimizer=optimizer,
        scheduler=plan,
        autocast=torch.float16,
        progress=False,
    )
    assert all(map(torch.equal, before, net.parameters()))
    assert plan.get_last_lr() == [1.0]


def test_bf16_autocast_keeps_the_direction():
    net, batches = toys.model().float(), toys.cut(toys.rows(12), 3)
    batches = [b | {"x": b["x"].float()} for b in batches]
    _, seen = run(net, batches, 4, autocast=torch.bfloat16)
    assert 1e-6 < seen[0].relative_error < 0.05


def test_saved_activations_do_not_grow_with_the_accumulation_steps():
    def peak(k):
        net, alive, most = toys.model(), set(), 0

        def pack(tensor):
            nonlocal most
            alive.add(tensor.data_ptr())
            most = max(most, len(alive))
            return tensor

        def unpack(tensor):
            alive.discard(tensor.data_ptr())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            run(net, toys.cut(toys.rows(4 * k), 4), k)
        return most

    assert peak(1) == peak(2) == peak(16)


def test_evaluation_after_each_epoch_and_the_mode_before_it():
    net = toys.model(classes=2)
    train, validation = (toys.cut(toys.rows(12, seed=s, classes=2), 5) for s in (1, 2))
    history, _ = run(net, train, 2, epochs=2, validation=validation)
    assert [e["epoch"] for e in history.evaluations] == [1, 2]
    assert [e["update"] for e in history.evaluations] == [2, 4]
    whole = equivalence.join(validation)
    output = net(**whole)
    correct = (output.logits.argmax(-1) == whole["labels"]).double().mean().item()
    last = history.evaluations[-1]
    assert last["accuracy"] == pytest.approx(correct)
    assert last["loss"] == pytest.approx(output.loss.item(), abs=EXACT)
    assert net.training and "epoch 2" in repr(history)


def test_evaluation_of_more_classes_gives_the_loss_alone():
    assert set(training.evaluate(toys.model(), [toys.rows(5)])) == {"loss"}


def test_a_keyboard_interrupt_keeps_the_history_and_drops_half_a_window():
    net = toys.model()

    def batches():
        yield from toys.cut(toys.rows(6), 2)
        raise KeyboardInterrupt

    history = training.train(
        net,
        batches(),
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        accumulation_steps=2,
        progress=False,
    )
    assert history.interrupted and len(history.updates) == 1
    assert all(p.grad is None for p in net.parameters())
    assert "interrupted" in repr(history)


def test_the_progress_bar_counts_updates(capsys):
    run_with_bar = dict(optimizer=None)
    net = toys.model()
    run_with_bar["optimizer"] = torch.optim.SGD(net.parameters(), lr=0.1)
    training.train(
        net, toys.cut(toys.rows(12), 2), accumulation_steps=4, **run_with_bar
    )
    assert "/2" in capsys.readouterr().err


def test_an_empty_history_says_so():
    from helpers.history import History

    assert repr(History()) == "History: no update"
