"""A table of measured errors as a map: its numbers written in, its colours beside."""

from __future__ import annotations

import math
from collections.abc import Sequence

from helpers.plots import style
from helpers.plots.figure import check_words, drawing
from helpers.plots.inputs import numbers

SHADES = (style.PALE_GREEN, style.PALE_ORANGE, style.PALE_RED, "#F0B48F")


def score_map(
    columns: Sequence[str],
    rows: Sequence[str],
    errors: Sequence[Sequence[float]],
    *,
    rounding: float = 1e-4,
    alt: str = "",
    caption: str = "",
) -> None:
    """One box for each relative error: a tick where it is rounding, else its number.

    `errors` is errors[row][column]; below `rounding` an error counts as exact. Boxes
    are darker for errors above 0.1 and 1. Raises ValueError where the shape of
    `errors` does not fit the names, or an error is negative or infinite.
    """
    check_words(alt, caption)
    if len(errors) != len(rows) or any(len(row) != len(columns) for row in errors):
        raise ValueError(
            f"errors must have {len(rows)} rows of {len(columns)} numbers each, one "
            "for each name."
        )
    for name, row in zip(rows, errors, strict=True):
        numbers(row, f"errors of {name!r}", least=0)
    with drawing(alt, caption, height=1.15 + 0.4 * len(rows)) as fig:
        axes = fig.subplots()
        for y, row in enumerate(errors):
            for x, error in enumerate(row):
                _box(axes, x, y, error, rounding)
        axes.set_xlim(-0.5, len(columns) - 0.5)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xticks(range(len(columns)), [_two_lines(name) for name in columns])
        axes.set_yticks(range(len(rows)), [str(name) for name in rows])
        axes.tick_params(length=0, labelsize=style.SMALL, top=True, labeltop=True)
        axes.tick_params(bottom=False, labelbottom=False)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)


def _box(axes, x: int, y: int, error: float, rounding: float) -> None:
    exact = error < rounding
    shade = 0 if exact else 1 + sum(error >= limit for limit in (0.1, 1))
    axes.fill(
        [x - 0.47, x + 0.47, x + 0.47, x - 0.47],
        [y - 0.44, y - 0.44, y + 0.44, y + 0.44],
        color=SHADES[shade], linewidth=0,
    )  # fmt: skip
    axes.text(
        x, y, "✔" if exact else _short(error), ha="center", va="center",
        color="#00573C" if exact else style.INK,
        fontweight="bold" if exact or error >= 0.1 else "normal",
    )  # fmt: skip


def _short(error: float) -> str:
    digits = max(0, 1 - math.floor(math.log10(error))) if error < 10 else 0
    return f"{error:.{min(digits, 4)}f}"


def _two_lines(name: str) -> str:
    """Broken after its comma, else in the middle."""
    first, comma, rest = str(name).partition(", ")
    if comma:
        return f"{first},\n{rest}"
    words = first.split()
    half = max(1, round(len(words) / 2))
    return " ".join(words[:half]) + "\n" + " ".join(words[half:])
