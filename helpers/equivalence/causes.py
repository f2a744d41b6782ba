"""Names the fault of an update from its gradient: what would give exactly this one?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

# Rounding of single precision in deep models stays below; the faults are above 1e-3.
TOLERANCE = 1e-4

NOBODY_DIVIDES = (
    "Each micro-batch adds its own mean loss undivided: the Trainer leaves the "
    "division to the loss, and the loss drops num_items_in_batch."
)
MEAN_OF_MEANS = (
    "The mean of the micro-batches' means is taken, and they have unequal numbers of "
    "targets."
)
DIVIDED_BY_K = (
    "The short last window is divided by the accumulation steps, and not by the "
    "micro-batches that are in it."
)
STALE = "The update also holds micro-batches of another window, which leaked into it."
COUNTED_TOO = (
    "The first label of each row is counted, and the loss, which is shifted by one, "
    "leaves it out: the Trainer divides by too much."
)
WORLD = "The loss is multiplied by the number of processes, which already average."
NOT_A_SUM = (
    "The loss is no sum over rows, so it cannot be accumulated: rows of one "
    "micro-batch change each other's loss"
)


@dataclass(frozen=True)
class Parts:
    """The micro-batches of one window, each on its own.

    Attributes:
        gradients: gradient of the mean loss of each micro-batch with a target.
        targets: labels that count, of each of them.
        steps: accumulation steps of a full window.
        processes: how many processes average their gradients.
        labels: all labels but -100, those included that the loss shifts away.
    """

    gradients: Sequence[Tensor]
    targets: Sequence[int]
    steps: int
    processes: int = 1
    labels: int = 0

    @property
    def ideal(self) -> Tensor:
        """What exact accumulation gives: each target counts alike."""
        total = sum(self.targets)
        return sum(
            g * (t / total) for g, t in zip(self.gradients, self.targets, strict=True)
        )


def flat(gradient: Mapping[str, Tensor]) -> Tensor:
    """All gradients as one vector, in the order of their names."""
    return torch.cat([gradient[name].flatten() for name in sorted(gradient)])


def near(one: Tensor, other: Tensor) -> bool:
    """Whether two gradients agree up to rounding."""
    length = torch.maximum(one.norm(), other.norm())
    return bool(length > 0 and (one - other).norm() <= TOLERANCE * length)


def cause_of(found: Tensor, whole: Tensor, parts: Parts, model: nn.Module) -> str:
    """What would give the gradient `found` where `whole` is wanted; "" if unknown."""
    if not near(parts.ideal, whole):
        return f"{NOT_A_SUM}{_coupling(model)}."
    undivided = sum(parts.gradients)
    here, world = len(parts.gradients), parts.processes
    guesses = {
        NOBODY_DIVIDES: undivided / world,  # which the processes average
        MEAN_OF_MEANS: undivided / here,
        DIVIDED_BY_K: undivided / (parts.steps * world),
        COUNTED_TOO: parts.ideal * (sum(parts.targets) / max(parts.labels, 1)),
    }
    for words, guess in guesses.items():
        if near(found, guess):
            return words
    if world > 1 and near(found, whole * world):
        return WORLD
    for words, guess in guesses.items():
        if world > 1 and near(found, guess * world):
            return f"{words} {WORLD}"
    ratio = (found @ whole) / (whole @ whole)
    if ratio and near(found / ratio, whole):
        return f"The loss is scaled by {ratio.item():.4g}, for a reason unknown here."
    return ""


def _coupling(model: nn.Module) -> str:
    """What in the model is known to tie the rows of a micro-batch together."""
    if any(
        isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training
        for m in model.modules()
    ):
        return ", through batch normalisation in training mode"
    config = getattr(model, "config", None)
    if getattr(config, "output_router_logits", False):
        return ", through the router's auxiliary loss"
    return ""
