"""The few shapes that the diagrams are made of, in pixels of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]


def blank(fig: Figure, width: float, height: float) -> Axes:
    """Axes without axes that fill the figure: x to the right, y upwards, in pixels."""
    fig.set_layout_engine("none")
    axes = fig.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_axis_off()
    return axes


def block(
    axes: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    colour: str | None,
    *,
    edge: str = "none",
    line: float = 1,
    dashed: bool = False,
    hatch: str = "",
) -> None:
    """A rectangle with slightly rounded corners from its lower left corner."""
    from matplotlib.patches import FancyBboxPatch

    radius = min(5, width / 4, height / 4)
    axes.add_patch(
        FancyBboxPatch(
            (x, y), width, height, boxstyle=f"round,pad=0,rounding_size={radius}",
            facecolor=colour or "none", edgecolor=edge, linewidth=line,
            linestyle=(0, (4, 3)) if dashed else "-", hatch=hatch,
        )
    )  # fmt: skip


def write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    *,
    size: float = 10.5,
    bold: bool = False,
    colour: str = style.INK,
    align: str = "center",
    vertical: str = "center",
) -> None:
    """Words around a point."""
    axes.text(
        x, y, text, fontsize=size, fontweight="bold" if bold else "normal",
        color=colour, ha=align, va=vertical, linespacing=1.25,
    )  # fmt: skip


def arrow(
    axes: Axes, start: Point, end: Point, colour: str = style.MUTED, line: float = 1.5
) -> None:
    """An arrow from `start` to `end`."""
    axes.annotate(
        "", end, start,
        arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": line,
                    "shrinkA": 0, "shrinkB": 0, "mutation_scale": 11},
    )  # fmt: skip
