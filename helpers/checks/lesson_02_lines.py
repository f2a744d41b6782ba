"""Exercises 2.1 to 2.3 of lesson 2: the lines of the loop."""

from __future__ import annotations

import math

import torch

from ..exercises import Exercise, Wrong, call, number
from .probe import Probe, micro_batches

LESSON = "02_by_hand"


def _scaled_loss(answer) -> str:
    for seed, k in ((1, 4), (2, 3)):
        model = Probe(seed)
        loss = model(**micro_batches([5], seed)[0]).loss
        mean = number(loss.detach())  # read now: dividing in place is right as well
        share = call(answer, loss, k)
        if share is None:
            raise Wrong("Your function gave back None. Does it end with a `return`?")
        if not isinstance(share, torch.Tensor) or not share.requires_grad:
            raise Wrong(
                "What you return has lost its graph, so backward has nothing to "
                "follow. Keep the tensor: no .item(), no float(), no detach().",
                hint=1,
            )
        ratio = number(share.detach()) / mean
        if math.isclose(ratio, 1 / k, rel_tol=1e-9):
            continue
        if math.isclose(ratio, 1, rel_tol=1e-9):
            raise Wrong(
                f"The loss comes back undivided: {k} micro-batches would add up to a "
                f"gradient {k} times too large.",
                hint=0,
            )
        if math.isclose(ratio, k, rel_tol=1e-9):
            raise Wrong(
                "You multiplied. The sum has to come out as a mean: divide.", hint=0
            )
        raise Wrong(
            f"For a loss of {mean:.3f} and {k} accumulation steps I expected "
            f"{mean / k:.3f} and got {number(share.detach()):.3f}.",
            hint=1,
        )
    return "The shares of a window add up to the mean over its micro-batches."


scaled_loss = Exercise(
    "2.1",
    "scaled_loss",
    _scaled_loss,
    hints=[
        "backward adds into .grad. What must each of the k losses be, for the sum to "
        "be their mean?",
        "One line: return the loss tensor divided by accumulation_steps.",
    ],
    lesson=LESSON,
)


def _update_now(answer) -> str:
    for k in (4, 1, 3):
        got = [bool(call(answer, i, k)) for i in range(12)]
        want = [i % k == k - 1 for i in range(12)]
        if got == want:
            continue
        steps = [i for i in range(12) if got[i]]
        if got == [i % k == 0 for i in range(12)]:
            raise Wrong(
                f"With k = {k} this steps at i = {steps[:3]} and so on: i counts from "
                "0, so the first step comes after a single micro-batch.",
                hint=0,
            )
        if got == [not w for w in want]:
            raise Wrong(
                "This is true everywhere but at the end of a window: a remainder of 0 "
                "counts as False in Python.",
                hint=1,
            )
        raise Wrong(
            f"With k = {k} the step has to come at i = "
            f"{[i for i in range(12) if want[i]]}; yours comes at {steps}.",
            hint=0,
        )
    return "A step comes after every k-th micro-batch, counted from zero."


update_now = Exercise(
    "2.2",
    "update_now",
    _update_now,
    hints=[
        "Write down i + 1 for the micro-batches after which the step should come.",
        "The remainder of i + 1, divided by accumulation_steps, has to be zero.",
    ],
    lesson=LESSON,
)


def _after_window(answer) -> str:
    for rate in (0.5, 0.25):
        weight = torch.nn.Parameter(torch.tensor([1.0]))
        weight.grad = torch.tensor([1.0])
        optimizer = torch.optim.SGD([weight], lr=rate)
        plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda u: 0.1**u)
        calls = []
        optimizer.register_step_pre_hook(
            lambda opt, *_, calls=calls: calls.append(opt.param_groups[0]["lr"])
        )
        call(answer, optimizer, plan)
        left = weight.grad is not None and bool(weight.grad.abs().sum())
        if not calls:
            raise Wrong(
                "The optimizer made no step: the weights are as before.", hint=0
            )
        if len(calls) > 1:
            raise Wrong(f"The optimizer stepped {len(calls)} times; once is right.")
        if calls[0] != rate:
            raise Wrong(
                "The scheduler came first, so this step already used the next rate. "
                "Step the optimizer, then the scheduler.",
                hint=1,
            )
        if weight.item() == 1.0:
            raise Wrong(
                "The step found no gradient: it was zeroed before it could be used.",
                hint=1,
            )
        if plan.last_epoch != 1:
            raise Wrong(
                f"The scheduler made {plan.last_epoch} steps; one an update is right.",
                hint=0,
            )
        if left:
            raise Wrong(
                "The gradient is still there: it would be added to the next window's.",
                hint=0,
            )
    return "Step with the rate of now, plan the next rate, start from an empty .grad."


after_window = Exercise(
    "2.3",
    "after_window",
    _after_window,
    hints=[
        "Three calls: optimizer.step(), scheduler.step(), optimizer.zero_grad().",
        "The step uses the gradient and the rate of now; so it comes first, and what "
        "clears the gradient comes after it.",
    ],
    lesson=LESSON,
)
