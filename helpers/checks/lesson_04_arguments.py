"""Exercise 4.7 of lesson 4: arguments that keep the effective batch."""

from __future__ import annotations

from collections.abc import Mapping

from ..exercises import Exercise, Wrong, call, number

LESSON = "04_trainer"
NAMES = ("per_device_train_batch_size", "gradient_accumulation_steps")
CASES = ((32, 8), (32, 12), (60, 16), (7, 4), (16, 64))


def _fitting(answer) -> str:
    for effective, most in CASES:
        rows, steps = _pair(call(answer, effective, most))
        sizes = range(1, min(effective, most) + 1)
        best = max(size for size in sizes if effective % size == 0)
        if (rows, steps) == (best, effective // best):
            continue
        given = f"Effective batch {effective}, at most {most} rows fit"
        for value in (rows, steps):
            if value != int(value) or value < 1:
                raise Wrong(
                    f"{given}: {value:g} is no number of rows or of micro-batches. "
                    "Both have to be whole, and 1 or more.",
                    hint=1,
                )
        if (steps, rows) == (best, effective // best) and rows != steps:
            raise Wrong(
                f"{given}: you have the two the wrong way round. The rows of the "
                "micro-batch come first.",
                hint=1,
            )
        if rows * steps != effective:
            raise Wrong(
                f"{given}: {rows:.0f} × {steps:.0f} is {rows * steps:.0f}, another "
                "effective batch. The micro-batch has to divide it.",
                hint=0,
            )
        if rows > most:
            raise Wrong(f"{given}: {rows:.0f} rows do not fit.", hint=0)
        raise Wrong(
            f"{given}: {rows:.0f} × {steps:.0f} is right and slower than need be. "
            f"Micro-batches of {best} rows fit as well.",
            hint=1,
        )
    return "Rows times accumulation steps stay what they were, in the fewest passes."


def _pair(found) -> tuple[float, float]:
    """Rows of the micro-batch and accumulation steps, from a dictionary or a pair."""
    if isinstance(found, Mapping):
        missing = [name for name in NAMES if name not in found]
        if missing:
            raise Wrong(f"The dictionary has no {missing[0]!r}.", hint=1)
        return number(found[NAMES[0]]), number(found[NAMES[1]])
    if isinstance(found, (tuple, list)) and len(found) == len(NAMES):
        return number(found[0]), number(found[1])
    raise Wrong(
        f"A dictionary with {NAMES[0]!r} and {NAMES[1]!r} is wanted, or the two as a "
        "pair. Is a `return` missing?",
        hint=1,
    )


fitting = Exercise(
    "4.7",
    "fitting",
    _fitting,
    hints=[
        "Rows of the micro-batch times accumulation steps is the effective batch. "
        "Which numbers of rows divide it without a remainder?",
        "Go down from min(effective_batch, most_rows) to the first number that "
        "divides effective_batch; the accumulation steps are the quotient.",
    ],
    lesson=LESSON,
)
