"""What repairs a Trainer whose gradient is scaled wrongly, each a line to paste."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from .losses import shifts, targets_of


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
        logits.reshape(-1, logits.shape[-1]),
        labels.reshape(-1),
        reduction="sum",
    )
    if num_items_in_batch is None:
        num_items_in_batch = (labels != -100).sum().clamp(min=1)
    return total / num_items_in_batch


def share_of_window(trainer) -> Callable[..., Any]:
    """A `compute_loss` for a Trainer whose loss is a mean that drops the count.

    It takes the Trainer's own mean loss, of the model, of an override or of label
    smoothing, times the targets of these rows, divided by those of the window.

        trainer.compute_loss = equivalence.share_of_window(trainer)
    """
    own, shifted = trainer.compute_loss, shifts(trainer)

    def compute_loss(
        model, inputs, return_outputs=False, num_items_in_batch=None, **named
    ):
        targets = targets_of(inputs, shifted)
        loss, outputs = own(model, inputs, return_outputs=True, **named)
        if num_items_in_batch is not None:
            # A loss over no target is 0 / 0.
            loss = loss.nan_to_num() * targets / num_items_in_batch
            if trainer.args.average_tokens_across_devices:
                loss = loss * trainer.accelerator.num_processes  # they average
        return (loss, outputs) if return_outputs else loss

    return compute_loss


def _with_share(trainer) -> None:
    trainer.compute_loss = share_of_window(trainer)


def _with_function(trainer) -> None:
    trainer.compute_loss_func = summed_cross_entropy


def _without_count(trainer) -> None:
    trainer.model_accepts_loss_kwargs = False


def _shifted(trainer) -> None:
    trainer._loss_shifts_labels = True


def _not_scaled(trainer) -> None:
    trainer.loss_is_scaled_for_ga = False


# Tried in this order on copies; the first that makes every window exact is told.
REMEDIES: dict[str, Callable[[Any], None]] = {
    "trainer.compute_loss_func = equivalence.summed_cross_entropy": _with_function,
    "trainer.compute_loss = equivalence.share_of_window(trainer)": _with_share,
    "trainer.model_accepts_loss_kwargs = False": _without_count,
    "trainer.loss_is_scaled_for_ga = False": _not_scaled,
    "trainer._loss_shifts_labels = True": _shifted,
}
