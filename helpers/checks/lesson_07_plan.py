"""Exercise 7.3 of lesson 7: the largest micro-batch that fits."""

from __future__ import annotations

import math

from ..exercises import Exercise, Wrong, call, number

LESSON = "07_below_the_floor"
FLOOR, ROW, GRADIENTS = 40, 3, 20  # bytes of a training made up for the check
# (budget, effective batch): too much at once; all fits; uneven; one row; none fits.
_UP = "Round effective_batch / micro_batch up."
CASES = ((200, 64), (232, 64), (72, 10), (63, 9), (62, 64))


def _peak(micro_batch: int, accumulation_steps: int) -> int:
    """Bytes of the made-up training; a window of several keeps gradients."""
    for name, value in (
        ("the micro-batch", micro_batch),
        ("the accumulation steps", accumulation_steps),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise Wrong(
                f"You asked for the peak with {name} {value!r}; it has to be an int "
                "of 1 or more.",
                hint=1,
            )
    return FLOOR + ROW * micro_batch + GRADIENTS * (accumulation_steps > 1)


def _best(budget: int, effective: int, steps=None) -> tuple[int, int] | None:
    steps = steps or (lambda rows: math.ceil(effective / rows))
    for rows in range(effective, 0, -1):
        if _peak(rows, steps(rows)) <= budget:
            return rows, math.ceil(effective / rows)
    return None


def _largest_plan(answer) -> str:
    for budget, effective in CASES:
        found = call(answer, _peak, budget, effective)
        want = _best(budget, effective)
        got = None if found is None else _pair(found)
        if got != want:
            raise _reason(got, want, budget, effective)
    return "The largest that fits, the effective batch kept, waiting gradients counted."


def _pair(found) -> tuple[float, float]:
    if isinstance(found, (tuple, list)) and len(found) == 2:
        return number(found[0]), number(found[1])
    raise Wrong(
        "Two numbers are wanted, (micro-batch, accumulation steps), or None where "
        "nothing fits.",
        hint=1,
    )


def _reason(got, want, budget: int, effective: int) -> Wrong:
    given = f"Budget {budget}, effective batch {effective}"
    if want is None:
        return Wrong(
            f"{given}: not even one row fits, and you gave {_said(got)}. Return None.",
            hint=1,
        )
    if got is None:
        return Wrong(
            f"{given}: you gave None, and {_said(want)} fits. Is a `return` missing?",
            hint=1,
        )
    rows, steps = got
    if got == want[::-1] and got != (1, effective):
        return Wrong(f"{given}: the micro-batch comes first, then the steps.", hint=1)
    if rows == want[0]:
        more = "loses rows" if steps < want[1] else "has more than it needs"
        return Wrong(
            f"{given}: {rows:g} rows is right, but a window of {steps:g} {more}. {_UP}",
            hint=0,
        )
    if rows == (_best(budget, effective, lambda rows: 1) or [0])[0]:
        down = "" if steps == math.ceil(effective / rows) else f" {_UP}"
        return Wrong(
            f"{given}: {rows:g} rows fit in one micro-batch alone. In a window of "
            "several the gradients of the ones before are kept as well: ask for the "
            f"peak with the steps of the window.{down}",
            hint=0,
        )
    if rows != int(rows) or not 1 <= rows <= effective:
        return Wrong(f"{given}: {rows:g} is no micro-batch of that window.", hint=1)
    if rows > want[0]:
        return Wrong(f"{given}: {rows:g} rows do not fit.", hint=0)
    if rows == 1:
        return Wrong(
            f"{given}: one row fits, and {want[0]} as well. Begin with the largest.",
            hint=0,
        )
    if effective % int(rows) == 0:
        return Wrong(
            f"{given}: {rows:g} rows fit, and {want[0]} as well. The last micro-batch "
            "may be shorter, so the size need not divide. And try all of them, from "
            "the largest down.",
            hint=1,
        )
    return Wrong(f"{given}: {rows:g} rows fit, and {want[0]} as well.", hint=1)


def _said(pair) -> str:
    return f"{pair[0]:g} × {pair[1]:g}"


largest_plan = Exercise(
    "7.3",
    "largest_plan",
    _largest_plan,
    hints=[
        "Go through the sizes from effective_batch down to 1. For each, the steps are "
        "effective_batch / micro_batch, rounded up; ask for the peak of both together.",
        "steps = -(-effective_batch // micro_batch); the first size with "
        "peak(micro_batch, steps) <= budget is the answer, and after the loop None.",
    ],
    lesson=LESSON,
)
