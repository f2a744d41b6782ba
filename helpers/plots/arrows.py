"""Gradients as arrows in a plane: the projection, and the drawing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from helpers.plots import style
from helpers.plots.labels import note, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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


def draw(axes: Axes, corners: list[Point], length: float, kept: float) -> None:
    """Draw the chain of arrows through `corners`, and the whole from (0, 0)."""
    high = max(y for _, y in corners) - min(y for _, y in corners)
    _arrow(axes, (0, 0), (length, 0), style.INK, 3.2)
    below = min(y for _, y in corners) >= -0.05 * max(high, 1e-12)
    axes.annotate(
        "reference: the whole batch", (length / 2, 0), ha="center",
        xytext=(0, -8 if below else 8), textcoords="offset points",
        va="top" if below else "bottom", fontweight="bold",
    )  # fmt: skip
    for index, (start, end) in enumerate(pairwise(corners)):
        colour = style.COLOURS[index % len(style.COLOURS)]
        _arrow(axes, start, end, colour, 2.4)
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        axes.annotate(
            str(index + 1), middle, ha="center", va="center", color=colour,
            fontweight="bold", fontsize=style.SMALL,
            bbox={"boxstyle": "circle,pad=0.2", "fc": style.CARD, "ec": colour},
        )  # fmt: skip
    x, y = corners[-1]
    gap = ((x - length) ** 2 + y**2) ** 0.5 / length
    if gap > 0.01:
        axes.plot(x, y, "D", color=style.VERMILLION)
        axes.annotate(
            f"the sum ends {short(100 * gap)} % away", (x, y), xytext=(8, 10),
            textcoords="offset points", color=style.VERMILLION, fontweight="bold",
        )  # fmt: skip
    else:
        axes.plot(x, y, "o", color=style.CARD, markeredgecolor=style.INK, zorder=6)
        axes.annotate(
            "the sum\nends here", (x, y), xytext=(10, 0), textcoords="offset points",
            va="center", fontsize=style.SMALL,
        )  # fmt: skip
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(x=0.04, y=0.2)
    axes.set_axis_off()
    note(
        axes, 0, 0, f"{100 * (1 - kept):.0f} % of the parts' squared length lies in "
        "directions that this plane does not show.", transform=axes.transAxes,
    )  # fmt: skip


def _arrow(axes: Axes, start: Point, end: Point, colour: str, width: float) -> None:
    axes.plot(*zip(start, end, strict=True), linestyle="")  # sets the limits
    axes.annotate(
        "", end, start,
        arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": width,
                    "shrinkA": 0, "shrinkB": 0, "mutation_scale": 16},
    )  # fmt: skip
