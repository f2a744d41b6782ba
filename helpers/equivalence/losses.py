"""The Trainer's own loss, asked of any rows at once: what accumulation has to give."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from .reference import IGNORED, gradient, join
from .twin import CannotTell, rows_of

Batch = Mapping[str, Tensor]


class MeanLoss:
    """Gradient of the mean loss over all targets of some micro-batches, in float64.

    The loss is the user's own: of the model, of a `compute_loss` that was overridden,
    of a `compute_loss_func` or of label smoothing. It is asked without a count, so that
    it takes its own mean; where it needs one, it gets the number of targets.

    Raises:
        CannotTell: the loss cannot be had for a whole window at once.
    """

    def __init__(self, twin) -> None:
        self.trainer = copy.copy(twin)
        self.model = copy.deepcopy(twin.model).double()
        vars(self.model).pop("train", None)
        self.trainer.model = self.trainer.model_wrapped = self.model
        self.trainer.args = copy.copy(twin.args)
        # On several processes the Trainer would multiply by their number.
        self.trainer.args.average_tokens_across_devices = False
        self.trainer.current_gradient_accumulation_steps = 1
        self.shifted = shifts(twin)

    def targets(self, batches: Sequence[Batch]) -> int:
        """Labels that count in the loss; rows where labels are no class numbers."""
        return sum(targets_of(batch, self.shifted) for batch in batches)

    def __call__(self, batches: Sequence[Batch]) -> tuple[dict[str, Tensor], float]:
        """The gradient (float64, on the CPU) and the loss itself."""
        try:
            whole = join(batches, self._fill())
        except (TypeError, AttributeError, ValueError, RuntimeError) as error:
            raise CannotTell(
                f"The micro-batches of a window cannot be put together as one: {error}"
            ) from None
        count = self.targets([whole])
        try:
            loss = self._loss(whole, count)
            self.model.zero_grad(set_to_none=True)
            loss.backward()
        except Exception as error:
            raise CannotTell(
                "The loss cannot be had for a whole window at once, in float64: "
                f"{type(error).__name__}: {error}"
            ) from None
        return gradient(self.model), loss.item()

    def _loss(self, whole: Batch, count: int) -> Tensor:
        if self.trainer.compute_loss_func is not None:
            return self._asked(whole, torch.tensor(count))
        try:
            return self._asked(whole, None)
        except TypeError:  # an override that divides by the count it is given
            return self._asked(whole, torch.tensor(count))

    def _asked(self, whole: Batch, count: Tensor | None) -> Tensor:
        inputs = self.trainer._prepare_inputs({n: _wide(t) for n, t in whole.items()})
        with torch.enable_grad():
            loss = self.trainer.compute_loss(
                self.model, inputs, num_items_in_batch=count
            )
        return loss.mean()

    def _fill(self) -> dict[str, int]:
        config = getattr(self.model, "config", None)
        text = getattr(config, "text_config", None)
        pad = getattr(config, "pad_token_id", None)
        pad = getattr(text, "pad_token_id", None) if pad is None else pad
        pad = pad if isinstance(pad, int) and pad >= 0 else 0
        return {"input_ids": pad, "decoder_input_ids": pad}


def _wide(tensor):
    floating = isinstance(tensor, Tensor) and tensor.is_floating_point()
    return tensor.double() if floating else tensor


def shifts(trainer) -> bool:
    """Whether the loss is over labels[..., 1:], as in causal language models."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL,
    )

    known = getattr(trainer, "_loss_shifts_labels", None)
    return type(trainer.model).__name__ in CAUSAL.values() if known is None else known


def targets_of(batch: Batch, shifted: bool) -> int:
    """Labels of a micro-batch that count in the loss; rows where that is not said."""
    labels = batch.get("labels")
    if not isinstance(labels, Tensor) or labels.is_floating_point():
        return rows_of(batch)
    if shifted and labels.ndim > 1:
        labels = batch.get("shift_labels", labels[..., 1:])
    return int((labels != IGNORED).sum())
