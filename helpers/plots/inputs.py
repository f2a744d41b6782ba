"""What the charts accept, and one clear sentence for what they do not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def numbers(
    values: Iterable[Any], name: str, *, least: float = -math.inf, above: bool = False
) -> list[float]:
    """`values` as finite floats, none below `least` (none at it where `above`).

    Accepts lists, ranges, arrays and tensors. Raises ValueError, naming `name`.
    """
    try:
        result = [float(value) for value in values]
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be a list of numbers; it is {_short(values)}."
        ) from None
    if not result:
        raise ValueError(f"{name} is empty; give at least one number.")
    for value in result:
        if not math.isfinite(value):
            raise ValueError(f"{name} holds {value}; every value must be finite.")
        if value < least or (above and value == least):
            bound = "above" if above else "at least"
            raise ValueError(
                f"{name} holds {value:g}; every value must be {bound} {least:g}."
            )
    return result


def same_length(**lists: Sequence[Any]) -> None:
    """Refuse lists of different lengths. Raises ValueError."""
    if len({len(values) for values in lists.values()}) > 1:
        lengths = ", ".join(f"{name} has {len(v)}" for name, v in lists.items())
        raise ValueError(f"These lists must be equally long; {lengths}.")


def named(mapping: Any, name: str, *, most: int | None = None) -> Mapping[Any, Any]:
    """A dictionary with something in it. Raises ValueError."""
    if not isinstance(mapping, Mapping) or not mapping:
        raise ValueError(
            f"{name} must be a dictionary with at least one entry; "
            f"it is {_short(mapping)}."
        )
    if most is not None and len(mapping) > most:
        raise ValueError(
            f"{name} has {len(mapping)} entries; more than {most} cannot be told "
            "apart in one figure, so draw two."
        )
    return mapping


def whole_number(value: Any, name: str, least: int = 1, most: int | None = None) -> int:
    """`value` as an int between `least` and `most`. Raises ValueError."""
    wanted = f"at least {least}" if most is None else f"from {least} to {most}"
    good = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not good or (most is not None and value > most):
        raise ValueError(f"{name} must be a whole number {wanted}; it is {value!r}.")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
