"""Hold a gradient against the reference: how long, how far off, in what direction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .reference import Reference, gradient

# Single precision leaves about 1e-6 on the course's models; a fault leaves over 1e-3.
ROUNDING = 1e-5


@dataclass(frozen=True)
class Comparison:
    """How a gradient g stands to the reference r.

    Attributes:
        ratio: <g, r> / <r, r>; 1 when g is r, k when g is k times too long.
        residual: |g - ratio * r| / |r|; what is left when the length is put right.
        relative_error: |g - r| / |r|.
        cosine: <g, r> / (|g| |r|); NaN where g is zero.
    """

    ratio: float
    residual: float
    relative_error: float
    cosine: float

    @property
    def exact(self) -> bool:
        """Whether g is the reference, up to the rounding of single precision."""
        return self.relative_error < ROUNDING

    @property
    def verdict(self) -> str:
        """What the numbers say, in a few words."""
        if not math.isfinite(self.relative_error):
            return "not a number"
        if self.exact:
            return "the reference, up to rounding"
        if self.residual < ROUNDING:
            return f"the right direction, {self.ratio:.4g} times as long"
        return "not the reference"

    def __str__(self) -> str:
        return (
            f"ratio {self.ratio:.4f}   residual {self.residual:.1e}   "
            f"relative error {self.relative_error:.1e}   {self.verdict}"
        )

    __repr__ = __str__


def compare(
    candidate: nn.Module | Mapping[str, Tensor], reference: Reference
) -> Comparison:
    """Compare a gradient with the reference.

    Args:
        candidate: a model, whose `.grad` is read, or what `gradient(model)` gave.
        reference: what `reference(model, batches)` gave.

    Raises:
        ValueError: the two are not about the same weights, or the reference is zero.
    """
    if isinstance(candidate, nn.Module):
        candidate = gradient(candidate)
    wanted = reference.gradient
    if set(candidate) != set(wanted):
        odd = sorted(set(candidate) ^ set(wanted))
        raise ValueError(
            f"The gradient and the reference are not about the same weights: {odd[:3]} "
            "stands in one of them only. Take both from the same model."
        )
    g, r = (
        torch.cat([side[name].flatten().double() for name in wanted])
        for side in (candidate, wanted)
    )
    length = r.norm()
    if length == 0:
        raise ValueError(
            "The reference gradient is zero, so nothing can be compared with it; "
            "take rows whose loss depends on the weights."
        )
    ratio = (g @ r) / (r @ r)
    return Comparison(
        ratio=ratio.item(),
        residual=((g - ratio * r).norm() / length).item(),
        relative_error=((g - r).norm() / length).item(),
        cosine=((g @ r) / (g.norm() * length)).item(),
    )
