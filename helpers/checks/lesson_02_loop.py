"""Exercise 2.9 of lesson 2: the whole loop, held against the reference."""

from __future__ import annotations

import math

import torch

from ..equivalence import compare, reference
from ..exercises import Exercise, Wrong, call
from .probe import Probe, micro_batches

CASES = (  # rows of each micro-batch, accumulation steps, clip?
    ([6, 6, 6, 6], 2, False),
    ([6, 6, 6, 6, 6], 3, False),
    ([6, 6, 6, 6, 6, 2], 2, False),
    ([6, 6, 6, 6, 6, 6], 4, True),
)


def _own_loop(answer) -> str:
    for seed, (sizes, k, clip) in enumerate(CASES, 21):
        _run(answer, seed, sizes, k, clip)
    return (
        "Every update is the reference, short and ragged windows included; clipped "
        "once, scheduled once, nothing left over."
    )


def _run(answer, seed: int, sizes: list[int], k: int, clip: bool) -> None:
    model, loader = Probe(seed), micro_batches(sizes, seed)
    windows = [loader[i : i + k] for i in range(0, len(loader), k)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda u: 1 / (1 + u))
    limit = _norm(reference(model, windows[0])) / 2 if clip else 1e9
    rates: list[float] = []

    def look(*_: object) -> None:
        if len(rates) < len(windows):
            window = windows[len(rates)]
            _compare(model, window, limit, clip, k, first=not rates)
        rates.append(optimizer.param_groups[0]["lr"])

    optimizer.register_step_pre_hook(look)
    call(answer, model, loader, optimizer, plan, k, limit)
    _count(rates, plan, windows, sizes, k)
    left = [p for p in model.parameters() if p.grad is not None and p.grad.any()]
    if left:
        raise Wrong("After the loop a gradient is left over in .grad.", hint=2)
    if model.most_open > 1:
        raise Wrong(
            f"{model.most_open} micro-batches were held in memory at once: call "
            "backward on each before the next forward.",
            hint=1,
        )


def _norm(found) -> float:
    return math.sqrt(sum(g.square().sum().item() for g in found.gradient.values()))


def _compare(model, window, limit, clip, k, first) -> None:
    wanted = reference(model, window)
    full = _norm(wanted)
    factor = min(1.0, limit / (full + 1e-6))
    for gradient in wanted.gradient.values():
        gradient.mul_(factor)
    found = compare(model, wanted)
    if found.relative_error < 1e-5:  # torch adds 1e-6 to the norm it clips by
        return
    short = len(window) < k
    equal = len({len(batch["labels"]) for batch in window}) == 1
    if not first and equal and not clip and found.residual > 1e-5:
        raise Wrong(
            "From the second window on the gradient is not the reference: is .grad "
            f"empty when a window starts? ({found})",
            hint=2,
        )
    if abs(found.ratio * factor - 1) < 1e-3 and clip and found.residual < 1e-5:
        raise Wrong("The gradient is not clipped: its length is over max_norm.", hint=3)
    if short and found.residual < 1e-5 and not clip:
        raise Wrong(
            f"The short last window comes out {found.ratio:.3g} times as long: it is "
            f"divided by {k}, and it has {len(window)} micro-batches.",
            hint=1,
        )
    if abs(found.ratio - k) < 1e-6 and found.residual < 1e-5:
        raise Wrong(f"The gradient is {k} times too large: nothing divides.", hint=1)
    alone = compare(model, reference(model, window[-1]))
    if alone.residual < 1e-5 and len(window) > 1:
        raise Wrong(
            "Only the last micro-batch of the window is in .grad: it was zeroed "
            "between them.",
            hint=2,
        )
    if clip:
        raise Wrong(
            "With clipping the direction is off: clip once, when the whole window is "
            f"in .grad. ({found})",
            hint=3,
        )
    raise Wrong(
        "A window of unequal micro-batches is not exact: the mean of means is not "
        f"the mean over the targets. ({found})",
        hint=1,
    )


def _count(rates, plan, windows, sizes, k) -> None:
    made, due = len(rates), len(windows)
    given = f"With {len(sizes)} micro-batches and k = {k}"
    if made < due:
        raise Wrong(
            f"{given} your loop made {made} updates and {due} are due: the short last "
            "window was never applied.",
            hint=0,
        )
    if made > due:
        raise Wrong(f"{given} your loop made {made} updates; {due} are due.", hint=0)
    if plan.last_epoch != due:
        raise Wrong(
            f"{given} the scheduler made {plan.last_epoch} steps in {due} updates; "
            "once an update is right.",
            hint=3,
        )
    if rates[0] != 0.2:
        raise Wrong(
            "The scheduler stepped before the first update: the first rate is lost.",
            hint=3,
        )


own_loop = Exercise(
    "2.9",
    "own_loop",
    _own_loop,
    hints=[
        "Walk over windows, not over micro-batches: for window in "
        "training.windows(loader, accumulation_steps).",
        "Inside a window your window_gradient does all the work.",
        "zero_grad belongs at the end of each window, after the step.",
        "After the window: torch.nn.utils.clip_grad_norm_(model.parameters(), "
        "max_norm), optimizer.step(), scheduler.step(), optimizer.zero_grad().",
    ],
    lesson="02_by_hand",
)
