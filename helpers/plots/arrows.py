"""Gradients as arrows in a plane: the projection, and the drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from helpers.plots import style
from helpers.plots.labels import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

Point = tuple[float, float]


def in_plane(
    parts: Sequence[Tensor], whole: Tensor
) -> tuple[list[Point], float, float]:
    """The parts in the plane of `whole` and of the largest deviation from it.

    Returns one (along `whole`, across) for each part, the length of `whole`, and the
    share of the parts' total squared length that the plane keeps, from 0 to 1.
    """
    import torch

    if not isinstance(whole, torch.Tensor) or whole.dim() != 1:
        raise ValueError("whole must be one flat tensor: the reference gradient.")
    wrong = [part for part in parts if getattr(part, "shape", None) != whole.shape]
    if not parts or wrong:
        raise ValueError(
            f"parts must be a list of flat tensors of {whole.numel()} numbers each, "
            "one gradient for each micro-batch."
        )
    target = whole.detach().double().cpu()
    stack = torch.stack([part.detach().double().cpu() for part in parts])
    length = target.norm().item()
    if not torch.isfinite(stack).all() or not 0 < length < float("inf"):
        raise ValueError(
            "The gradients must be finite and whole must not be zero: it gives the "
            "picture its direction."
        )
    forward = target / length
    along = stack @ forward
    deviations = stack - along[:, None] * forward
    largest = deviations[deviations.norm(dim=1).argmax()]
    across = torch.zeros_like(along)
    if largest.norm() > 1e-9 * length:
        across = deviations @ (largest / largest.norm())
    kept = ((along**2 + across**2).sum() / (stack**2).sum().clamp_min(1e-300)).item()
    steps = list(zip(along.tolist(), across.tolist(), strict=True))
    return steps, length, kept


def draw(fig: Figure, corners: list[Point], length: float, kept: float) -> None:
    """Draw the chain of arrows through `corners`, and the whole from (0, 0)."""
    axes = fig.subplots()
    _arrow(axes, (0, 0), (length, 0), style.INK, 3.4)
    for index, (start, end) in enumerate(pairwise(corners)):
        colour = style.COLOURS[index % len(style.COLOURS)]
        _arrow(axes, start, end, colour, 2.4)
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        short_one = math.dist(start, end) < 0.08 * length  # hidden under its number
        axes.annotate(
            str(index + 1), middle, ha="center", va="center",
            xytext=(0, 17 if short_one else 0), textcoords="offset points",
            fontweight="bold", fontsize=style.SMALL,
            bbox={"boxstyle": "circle,pad=0.2", "fc": style.CARD, "ec": colour},
        )  # fmt: skip
    x, y = corners[-1]
    gap = ((x - length) ** 2 + y**2) ** 0.5 / length
    if gap > 0.01:
        axes.plot(x, y, "D", color=style.VERMILION, zorder=6)
        text = f"the sum ends here,\n{short(100 * gap)} % away"
        _tip(axes, x, y, text, "#B34700", 24)
        _tip(axes, length, 0, "reference", style.INK, 16, left=True)
    else:
        _tip(axes, length, 0, "reference, and\nsum of the parts", style.INK, 0)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(x=0.03, y=0.1)
    axes.set_axis_off()
    left_out = round(100 * (1 - kept))
    if left_out > 0:
        fig.supxlabel(
            f"{left_out} % of the parts' squared length lies in directions that this "
            "plane does not show.",
            x=0.015, ha="left", fontsize=style.SMALL, color=style.MUTED,
        )  # fmt: skip


def _tip(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    colour: str,
    lift: float,
    left: bool = False,
) -> None:
    """Words beside an arrow's tip, on a light patch, `lift` points up."""
    axes.annotate(
        text, (x, y), xytext=(-8 if left else 8, lift), va="center",
        textcoords="offset points", ha="right" if left else "left",
        fontsize=9.5, fontweight="bold", color=colour, zorder=7,
        bbox={"facecolor": style.CARD, "edgecolor": "none", "pad": 1.5},
    )  # fmt: skip


def _arrow(axes: Axes, start: Point, end: Point, colour: str, width: float) -> None:
    axes.plot(*zip(start, end, strict=True), linestyle="")  # sets the limits
    axes.annotate(
        "", end, start,
        arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": width,
                    "shrinkA": 0, "shrinkB": 0, "mutation_scale": 16},
    )  # fmt: skip
