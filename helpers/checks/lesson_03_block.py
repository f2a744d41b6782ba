"""Exercises 3.1, 3.4 and 3.5 of lesson 3: what goes into the loop, and its block."""

from __future__ import annotations

import torch
from accelerate.optimizer import AcceleratedOptimizer
from accelerate.scheduler import AcceleratedScheduler

from ..equivalence import compare, reference
from ..exercises import Exercise, Wrong, call
from .lesson_03_bench import RATE, bench, quietly

LESSON = "03_accelerator"
NAMES = ("model", "loader", "optimizer", "scheduler")


def _kind(thing) -> str:
    """Which of the four it is, prepared or not."""
    if isinstance(thing, torch.nn.Module):
        return "model"
    if isinstance(thing, torch.optim.Optimizer):
        return "optimizer"
    if isinstance(thing, (AcceleratedScheduler, torch.optim.lr_scheduler.LRScheduler)):
        return "scheduler"
    if isinstance(thing, torch.utils.data.DataLoader):
        return "loader"
    return "something else"


def _prepared(answer) -> str:
    for seed, sizes, k in ((31, [4] * 6, 2), (32, [4] * 6, 3)):
        with bench(seed, sizes, k) as b:
            given = b.model, b.loader, b.plain_optimizer, b.plain_scheduler
            got = call(answer, b.accelerator, *given)
            _four(got)
            _wrapped(got)
            model, loader, optimizer, scheduler = got
            for batch in loader:
                with b.accelerator.accumulate(model):
                    b.accelerator.backward(model(**batch).loss)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
            _every_update(b)
    return "Prepared, the three calls of the update wait for the end of the window."


def _four(got) -> None:
    if got is None:
        raise Wrong("Your function gave back None. Does it end with a `return`?")
    if not isinstance(got, (tuple, list)) or len(got) != 4:
        raise Wrong(
            "Give back four things: model, loader, optimizer and scheduler.", hint=1
        )
    kinds = [_kind(thing) for thing in got]
    if kinds != list(NAMES):
        raise Wrong(
            f"The order has to be {', '.join(NAMES)}; yours is {', '.join(kinds)}. "
            "`prepare` gives back in the order in which you hand in.",
            hint=1,
        )


def _wrapped(got) -> None:
    model, loader, optimizer, scheduler = got
    ready = {
        "model": getattr(model, "_is_accelerate_prepared", False),
        "loader": hasattr(loader, "end_of_dataloader"),
        "optimizer": isinstance(optimizer, AcceleratedOptimizer),
        "scheduler": isinstance(scheduler, AcceleratedScheduler),
    }
    missing = [name for name in NAMES if not ready[name]]
    if len(missing) > 1:
        raise Wrong(
            f"{' and '.join(missing)} are not prepared. Use what `prepare` gives back; "
            "the objects that you hand in stay as they were.",
            hint=0,
        )
    if missing:
        why = {
            "model": "On several processes it would not exchange its gradients.",
            "loader": "Then `accumulate` cannot know when the loader ends.",
            "optimizer": "It would step at every micro-batch.",
            "scheduler": "It would move at every micro-batch.",
        }
        raise Wrong(f"The {missing[0]} is not prepared. {why[missing[0]]}", hint=1)


def _every_update(b) -> None:
    if len(b.updates) != len(b.windows):
        raise Wrong(
            f"{len(b.updates)} updates were made, and {len(b.windows)} are due.", hint=1
        )
    if any(u.compared().relative_error > 1e-9 for u in b.updates):
        raise Wrong("The updates are not the reference.", hint=1)
    if b.plain_scheduler.last_epoch != len(b.windows):
        raise Wrong(
            f"The scheduler made {b.plain_scheduler.last_epoch} steps in "
            f"{len(b.windows)} updates. Prepare it with the optimizer, or after it.",
            hint=1,
        )


prepared = Exercise(
    "3.1",
    "prepared",
    _prepared,
    hints=[
        "accelerator.prepare(a, b) gives back a prepared a and a prepared b. Return "
        "those, not what you were given.",
        "One line: return accelerator.prepare(...) with all four, in the order in "
        "which they stand in the first line of the function.",
    ],
    lesson=LESSON,
)


def _add_gradient(answer) -> str:
    for seed, k in ((33, 4), (34, 3)):
        with bench(seed, [6] * k, k) as b:
            model, loader, *_ = b.prepare()
            for batch in loader:
                with b.accelerator.accumulate(model):
                    call(answer, b.accelerator, model, batch)
            if all(p.grad is None for p in model.parameters()):
                raise Wrong("There is no gradient in .grad: did you call backward?")
            found = compare(model, reference(model, b.windows[0]))
            if found.relative_error < 1e-9:
                continue
            straight = found.residual < 1e-9
            if straight and abs(found.ratio * k - 1) < 1e-6:
                raise Wrong(
                    f"You divided by k, and `accelerator.backward` divides again: with "
                    f"k = {k} the gradient is {found.ratio:.3g} of what it should be.",
                    hint=0,
                )
            if straight and abs(found.ratio - k) < 1e-6:
                raise Wrong(
                    f"The gradient is {k} times too large: in the end nothing divides. "
                    "Call backward on the accelerator, with the loss as it is.",
                    hint=1,
                )
            alone = compare(model, reference(model, b.windows[0][-1]))
            if alone.residual < 1e-9:
                raise Wrong(
                    "Only the last micro-batch is in .grad: something clears it in "
                    "between.",
                    hint=1,
                )
            raise Wrong(f"Held against the reference: {found}.", hint=1)
    return "Divided once, by `accelerator.backward`: the ratio is 1."


add_gradient = Exercise(
    "3.4",
    "add_gradient",
    _add_gradient,
    hints=[
        "The ratio was one k-th. How many divisions by k can you find, and which of "
        "them is yours?",
        "Two lines: loss = model(**batch).loss, then accelerator.backward(loss).",
    ],
    lesson=LESSON,
)


def _own_block(answer) -> str:
    for seed, sizes, k in ((35, [5] * 6, 3), (36, [5] * 4, 2)):
        with bench(seed, sizes, k) as b:
            model, loader, optimizer, scheduler = b.prepare()
            for batch in loader:
                with b.accelerator.accumulate(model):
                    quietly(answer, b.accelerator, model, batch, optimizer, scheduler)
            _judge_block(b, k)
    return "Every window is the reference, and the next one starts from an empty .grad."


def _judge_block(b, k: int) -> None:
    made, due, planned = len(b.updates), len(b.windows), b.plain_scheduler.last_epoch
    micro = f"With {due * k} micro-batches and k = {k}"
    if not made:
        raise Wrong("The optimizer made no step.", hint=0)
    if made != due:
        raise Wrong(f"{micro} you made {made} updates; {due} are due.", hint=0)
    if not any(g.any() for g in b.updates[0].gradient.values()):
        raise Wrong(
            "The step found an empty .grad: backward has to come before it.", hint=0
        )
    first, rest = b.updates[0].compared(), [u.compared() for u in b.updates[1:]]
    if first.relative_error > 1e-9:
        _name_the_fault(b, first, k)
    if any(c.relative_error > 1e-9 for c in rest):
        raise Wrong(
            "The first window is right and the next is not: the gradient of a window "
            "has to be gone when the next one starts.",
            hint=1,
        )
    if planned != due:
        raise Wrong(
            f"{micro} the scheduler made {planned} steps in {due} updates; once an "
            "update is right.",
            hint=0,
        )
    if b.updates[0].rate != RATE:
        raise Wrong(
            "The scheduler came before the first step, so the first rate is lost.",
            hint=0,
        )
    if any(p.grad is not None and p.grad.any() for p in b.model.parameters()):
        raise Wrong("After the last window its gradient is still in .grad.", hint=1)


def _name_the_fault(b, found, k: int) -> None:
    if b.updates[0].only_the_last:
        raise Wrong(
            "Only the last micro-batch of the window is in .grad. Something clears it "
            "between the first backward and the step: `optimizer.zero_grad()` before "
            "backward, or a `model.zero_grad()`, which is not prepared and never "
            "waits.",
            hint=1,
        )
    if found.residual < 1e-9 and abs(found.ratio * k - 1) < 1e-6:
        raise Wrong("The loss is divided twice by k.", hint=0)
    if found.residual < 1e-9 and abs(found.ratio - k) < 1e-6:
        raise Wrong("Nothing divides: the gradient is k times too large.", hint=0)
    raise Wrong(f"The first update, held against the reference: {found}.", hint=0)


own_block = Exercise(
    "3.5",
    "own_block",
    _own_block,
    hints=[
        "Four calls: add_gradient, optimizer.step, scheduler.step, "
        "optimizer.zero_grad.",
        "zero_grad comes last: it then clears what the step has used. No `if` is "
        "needed around prepared objects.",
    ],
    lesson=LESSON,
)
