"""Words and numbers inside a figure: how they are written, where they go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from helpers.plots.style import MUTED, SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def short(value: float) -> str:
    """A number in at most three digits: 0, 0.31, 12.4, 310, 2.2 × 10⁻¹⁶."""
    if value == 0:
        return "0"
    size = abs(value)
    if 1e-3 <= size < 1e4:
        digits = max(0, 2 - math.floor(math.log10(size)))
        text = f"{value:.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa} × 10{str(int(exponent)).translate(_RAISED)}"


def doubling(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic x axis for these values, with a tick at each power of two."""
    low, high = min(values), max(values)
    axes.set_xscale("log", base=2)
    ticks = [2**i for i in range(20) if low / 2 < 2**i < high * 2]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xlim(low / 1.25, high * 1.25)
    axes.minorticks_off()


def mebibytes(value: float) -> str:
    """Bytes, already divided by 2^20, in the fewest digits that tell bars apart."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def at_line_ends(
    fig: Figure, axes: Axes, ends: Sequence[tuple[float, float, str, str]]
) -> None:
    """Write a name at the end of each line, moved up or down where two would touch.

    `ends` holds (x, y, name, colour) in data coordinates, after all lines are drawn.
    """
    texts = [
        axes.annotate(
            name, (x, y), xytext=(9, 0), textcoords="offset points", va="center",
            color=colour, fontsize=9.5, fontweight="bold", annotation_clip=False,
        )
        for x, y, name, colour in ends
    ]  # fmt: skip
    fig.draw_without_rendering()  # the heights in points are known only after layout
    to_points = 72 / fig.dpi
    heights = [axes.transData.transform((x, y))[1] * to_points for x, y, *_ in ends]
    rows = [1 + name.count("\n") for _, _, name, _ in ends]
    for text, old, new in zip(texts, heights, spread(heights, rows), strict=True):
        text.set_position((9, new - old))


def spread(heights: Sequence[float], rows: Sequence[int], gap: float = 13) -> list:
    """Heights moved as little as needed so that no two labels touch.

    `gap` is the height of one row of text in points; a label has `rows` of them.
    """
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    groups: list[list[int]] = []
    for index in order:
        groups.append([index])
        while len(groups) > 1 and _top(groups[-2], heights, rows, gap) > _bottom(
            groups[-1], heights, rows, gap
        ):
            groups[-2:] = [groups[-2] + groups[-1]]
    placed = list(heights)
    for group in groups:
        edge = _bottom(group, heights, rows, gap)
        for index in group:
            placed[index] = edge + rows[index] * gap / 2
            edge += rows[index] * gap
    return placed


def _bottom(group, heights, rows, gap) -> float:
    middle = sum(heights[i] for i in group) / len(group)
    return middle - sum(rows[i] for i in group) * gap / 2


def _top(group, heights, rows, gap) -> float:
    return _bottom(group, heights, rows, gap) + sum(rows[i] for i in group) * gap


def note(axes: Axes, x: float, y: float, text: str, **options) -> None:
    """A quiet remark in data coordinates."""
    axes.text(x, y, text, **{"color": MUTED, "fontsize": SMALL, **options})
