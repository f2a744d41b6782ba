"""Faults that people reported of accelerate, of clipping and of the loss scaler."""

from __future__ import annotations

import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import GradientAccumulationPlugin
from torch import nn
from torch.utils.data import DataLoader

from helpers import equivalence, training
from helpers.equivalence.twin import undisturbed
from tests import toys
from tests.test_reports_loops import (
    EXACT,
    accumulated,
    compared,
    far,
    flat,
    shared_loop,
    upstream,
    weights,
)
from tests.trainers import Stream, classified, distilbert, llama, tokens, trainer


@pytest.fixture(autouse=True)
def own_state():
    with undisturbed():
        yield


def loop(batches, k=4, *, lr=0.0, clip=None, **how):
    """One pass of accelerate's documented loop, watched; faults by name in `how`."""
    plugin = GradientAccumulationPlugin(k, sync_with_dataloader=how.get("sync", True))
    accelerator = Accelerator(gradient_accumulation_plugin=plugin, cpu=True)
    net = toys.model()
    inner = torch.optim.SGD(net.parameters(), lr=lr)
    data = DataLoader(batches, batch_size=None)
    model, optimizer, data = accelerator.prepare(net, inner, data)
    windows = list(training.windows(batches, k))
    with equivalence.watch(net, inner, windows) as seen:
        for batch in data:
            with accelerator.accumulate(model):
                if how.get("zero_first"):
                    optimizer.zero_grad()
                loss = model(**batch).loss
                if how.get("divide"):
                    loss = loss / k
                if how.get("bare"):
                    loss.backward()
                else:
                    accelerator.backward(loss)
                if clip and (how.get("every") or accelerator.sync_gradients):
                    accelerator.clip_grad_norm_(model.parameters(), clip)
                if accelerator.sync_gradients or not how.get("guarded"):
                    optimizer.step()
                    if not how.get("zero_first"):
                        optimizer.zero_grad()
    return seen, net


def test_b01_the_short_last_window_is_divided_by_k():
    """https://github.com/huggingface/transformers/issues/38837"""
    batches = toys.cut(toys.rows(20), 2)  # windows of 4, 4 and 2 micro-batches
    _, seen, _ = shared_loop(batches)
    assert len(seen.ratios) == 3 and seen.exact
    found, _ = loop(batches)
    assert found.ratios[:2] == pytest.approx([1, 1], abs=EXACT)
    assert found.comparisons[2].residual < EXACT
    last = found.ratios[2]
    upstream(abs(last - 1 / 2) < EXACT, abs(last - 1) < EXACT, "accumulate()'s tail")


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
@pytest.mark.parametrize("prepared", [True, False])
def test_c01_a_scheduler_steps_once_an_update_only_where_it_is_prepared(prepared):
    """https://github.com/huggingface/accelerate/issues/963"""
    accelerator = Accelerator(gradient_accumulation_steps=4, cpu=True)
    net, rates = toys.model(), []
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    optimizer.register_step_pre_hook(
        lambda inner, *_: rates.append(inner.param_groups[0]["lr"])
    )
    plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda u: max(0, 1 - u / 8))
    data = DataLoader(toys.cut(toys.rows(32), 1), batch_size=None)
    model, optimizer, data = accelerator.prepare(net, optimizer, data)
    plan = accelerator.prepare(plan) if prepared else plan
    for batch in data:
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            plan.step()
            optimizer.zero_grad()
    once = [1 - u / 8 for u in range(8)]
    each = [0.625, 0.125, 0, 0, 0, 0, 0, 0]
    if prepared:
        assert rates == once
    else:
        upstream(rates == each, rates == once, "a scheduler that is not prepared")


def test_c04_clipping_each_micro_batch_is_not_clipping_the_window():
    """https://github.com/huggingface/accelerate/issues/641"""
    batches = toys.cut(toys.rows(16), 4)
    wanted = flat(accumulated(toys.model(), batches))
    limit = wanted.norm() / 3
    clipped = wanted * limit / (wanted.norm() + 1e-6)  # torch adds 1e-6

    def moved(**how):
        start = weights(toys.model())
        return start - weights(loop(batches, lr=1.0, clip=limit, **how)[1])

    assert (moved() - clipped).norm() < EXACT
    assert (moved(every=True) - clipped).norm() > 0.1 * clipped.norm()
    start, end = weights(toys.model()), shared_loop(batches, max_norm=limit.item())[0]
    assert (start - weights(end) - clipped).norm() < EXACT


def test_c07_unscale_twice_in_a_window_raises():
    """https://github.com/microsoft/Swin-Transformer/issues/311"""
    net, batches = toys.model().float(), toys.cut(toys.rows(4), 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    scaler, raised = torch.amp.GradScaler("cpu"), False
    batches = [b | {"x": b["x"].float()} for b in batches]
    for batch in batches:
        scaler.scale(net(**batch).loss / 2).backward()
        try:
            scaler.unscale_(optimizer)
        except RuntimeError as error:
            raised = "unscale_() has already been called" in str(error)
    upstream(raised, compared(net, batches).exact, "unscale_ twice")


def test_d01_who_divides_by_k():
    """https://github.com/huggingface/accelerate/issues/3533

    The claim, that the Trainer divides twice, does not hold; a loop can do so.
    """
    made = trainer(llama(), tokens([1, 2, 6, 12] * 4), 2, 4)
    assert made.accelerator.gradient_accumulation_steps == 1
    assert equivalence.audit(made).ratios == pytest.approx([1, 1], abs=1e-4)
    batches = toys.cut(toys.rows(32), 4)
    for how, ratio in (({}, 1), ({"divide": True}, 1 / 4), ({"bare": True}, 4)):
        assert loop(batches, **how)[0].ratios == pytest.approx([ratio] * 2, abs=EXACT)


def test_d02_zero_grad_first_leaves_the_last_micro_batch_alone():
    """https://github.com/huggingface/accelerate/issues/616"""
    batches = toys.cut(toys.rows(16), 4)
    found = loop(batches, zero_first=True)[0].comparisons[0]
    alone = compared(accumulated(toys.model(), batches[-1:], 1 / 4), batches)
    kept = abs(found.ratio - alone.ratio) < EXACT
    kept = kept and abs(found.residual - alone.residual) < EXACT
    upstream(kept and not found.exact, found.exact, "zero_grad first in accumulate()")


@pytest.mark.parametrize("sync", [True, False])
def test_d04_the_last_batch_of_a_loader_makes_an_update_of_each_slice(sync):
    """https://github.com/huggingface/accelerate/issues/1847"""
    plugin = GradientAccumulationPlugin(num_steps=4, sync_with_dataloader=sync)
    accelerator = Accelerator(gradient_accumulation_plugin=plugin, cpu=True)
    net, whole, updates = toys.model(), toys.cut(toys.rows(48), 16), []
    inner = torch.optim.SGD(net.parameters(), lr=0.1)
    inner.register_step_post_hook(lambda *_: updates.append(1))
    loader = DataLoader(whole, batch_size=None)
    model, optimizer, data = accelerator.prepare(net, inner, loader)
    made = []
    with equivalence.watch(net, inner, [toys.cut(b, 4) for b in whole]) as seen:
        for batch in data:
            before = len(updates)
            for part in toys.cut(batch, 4):
                with accelerator.accumulate(model):
                    accelerator.backward(model(**part).loss)
                    optimizer.step()
                    optimizer.zero_grad()
            made.append(len(updates) - before)
    right = made == [1, 1, 1] and seen.exact
    if sync:
        upstream(made == [1, 1, 4], right, "slices of a loader's last batch")
    else:
        assert right


def test_d06_d07_what_changes_nothing_in_one_process():
    """https://github.com/huggingface/accelerate/issues/1414
    https://github.com/huggingface/diffusers/issues/10553

    The claim, that step() must be guarded by sync_gradients, does not hold.
    """
    batches, start = toys.cut(toys.rows(32), 4), weights(toys.model())
    (seen, free), (_, guarded) = (
        loop(batches, lr=0.1, guarded=g) for g in (False, True)
    )
    assert seen.exact and far(free, weights(guarded), start) == 0
    found = []
    for every in (True, False):
        accelerator = Accelerator(gradient_accumulation_steps=4, cpu=True)
        pair = nn.ModuleList([toys.model(0), toys.model(1)])
        optimizer = torch.optim.SGD(pair.parameters(), lr=0.1)
        loader = DataLoader(batches, batch_size=None)
        one, two, optimizer, data = accelerator.prepare(*pair, optimizer, loader)
        for batch in data:
            with accelerator.accumulate(*([one, two] if every else [one])):
                loss = one(**batch).loss + two(**batch).loss
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        found.append(weights(pair))
    assert torch.equal(*found)


def test_n01_accelerate_makes_the_updates_of_a_short_stream():
    accelerator = Accelerator(gradient_accumulation_steps=4, cpu=True)
    net, updates = distilbert(), []
    inner = torch.optim.SGD(net.parameters(), lr=0.0)
    inner.register_step_post_hook(lambda *_: updates.append(1))
    loader = DataLoader(Stream(classified(6)), batch_size=2)
    model, optimizer, data = accelerator.prepare(net, inner, loader)
    for _ in range(2):
        for batch in data:
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch).loss)
                optimizer.step()
                optimizer.zero_grad()
    assert len(updates) == 2


def test_c08_a_scale_that_changes_inside_the_window_weighs_micro_batches():
    """https://github.com/pytorch/pytorch/pull/36601"""
    batches = toys.cut(toys.rows(16), 4)
    net = toys.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    for changes in (False, True):
        scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        net.zero_grad()
        for i, batch in enumerate(batches):
            if changes and i == 2:
                scaler.update(512.0)
            scaler.scale(net(**batch).loss / 4).backward()
        scaled = flat(net).norm()
        scaler.unscale_(optimizer)
        error = compared(net, batches).relative_error
        assert error > 0.1 if changes else error < 1e-6
        # Clipped while scaled, the gradient is far too short afterwards.
        assert scaled > 200 * flat(net).norm()
