"""What repairs a Trainer whose gradient is scaled wrongly, each a line to paste."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


def summed_cross_entropy(
    outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None
) -> Tensor:
    """A `compute_loss_func` for a Trainer: summed losses by the targets of the window.

    Args:
        outputs: of the model, with `.logits` of shape (..., classes).
        labels: class numbers of shape (...); -100 is ignored.
        num_items_in_batch: targets of the window, from the Trainer; without it, as in
            evaluation, the targets of these labels.

    Returns:
        The share of these rows in the mean loss of their window.
    """
    logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
    labels = labels.to(logits.device)
    total = nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]).float()
        if logits.dtype.itemsize < 4
        else logits.reshape(-1, logits.shape[-1]),
        labels.reshape(-1),
        reduction="sum",
    )
    if num_items_in_batch is None:
        num_items_in_batch = (labels != -100).sum().clamp(min=1)
    return total / num_items_in_batch


def _with_function(trainer) -> None:
    trainer.compute_loss_func = summed_cross_entropy


def _without_count(trainer) -> None:
    trainer.model_accepts_loss_kwargs = False


def _not_scaled(trainer) -> None:
    trainer.loss_is_scaled_for_ga = False


# Tried in this order on copies; the first that makes every window exact is told.
REMEDIES: dict[str, Callable[[Any], None]] = {
    "trainer.compute_loss_func = equivalence.summed_cross_entropy": _with_function,
    "trainer.model_accepts_loss_kwargs = False": _without_count,
    "trainer.loss_is_scaled_for_ga = False": _not_scaled,
}
