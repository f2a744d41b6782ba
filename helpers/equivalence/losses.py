"""The Trainer's own loss, asked of any rows at once: what accumulation has to give."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from .drawn import CannotTell, rows_of
from .reference import count_of, drops_first, gradient, join

Batch = Mapping[str, Tensor]


class MeanLoss:
    """Gradient of the mean loss over all targets of some micro-batches.

    In float64, or in float32 where an operation of the model has no float64.

    The loss is the user's own: of the model, of a `compute_loss` that was overridden,
    of a `compute_loss_func` or of label smoothing. It is asked without a count, so that
    it takes its own mean; where it needs one, it gets the number of targets.

    Raises:
        CannotTell: the loss cannot be had for a whole window at once.
    """

    def __init__(self, twin, batches: Sequence[Batch]) -> None:
        self.trainer = copy.copy(twin)
        self._take(twin.model, torch.float64)
        self.shifted = False
        self.trainer.args = copy.copy(twin.args)
        # On several processes the Trainer would multiply by their number.
        self.trainer.args.average_tokens_across_devices = False
        self.trainer.current_gradient_accumulation_steps = 1
        self.shifted = any(map(self._drops_first, batches[:1]))

    def _take(self, model: nn.Module, dtype: torch.dtype) -> None:
        self.dtype, self.model = dtype, copy.deepcopy(model).to(dtype)
        vars(self.model).pop("train", None)
        self.trainer.model = self.trainer.model_wrapped = self.model

    def _drops_first(self, batch: Batch) -> bool:
        """Whether the loss leaves out labels[..., 0], asked of the loss itself."""
        count = self.targets([batch])  # one for both, as the loss may divide by it
        return drops_first(batch, lambda asked: self([asked], count)[1])

    def targets(self, batches: Sequence[Batch]) -> int:
        """Labels that count in the loss; rows where there are no labels."""
        return sum(targets_of(batch, self.shifted) for batch in batches)

    def __call__(
        self, batches: Sequence[Batch], count: int | None = None
    ) -> tuple[dict[str, Tensor], float]:
        """The gradient (float64, on the CPU) and the loss itself.

        `count` is what a loss that needs a number of targets gets; theirs if left out.
        """
        try:
            whole = join(batches, self._fill())
        except (TypeError, AttributeError, ValueError, RuntimeError) as error:
            raise CannotTell(
                f"The micro-batches of a window cannot be put together as one: {error}"
            ) from None
        try:
            return self._taken(whole, count or self.targets([whole]))
        except Exception as error:
            if self.dtype == torch.float32:
                raise CannotTell(
                    "The loss cannot be had for a whole window at once "
                    f"({type(error).__name__}: {error})."
                ) from None
        self._take(self.model, torch.float32)
        return self(batches, count)

    def _taken(self, whole: Batch, count: int) -> tuple[dict[str, Tensor], float]:
        self.model.zero_grad(set_to_none=True)
        loss = self._loss(whole, count)
        loss.backward()
        return gradient(self.model), loss.item()

    def _loss(self, whole: Batch, count: int) -> Tensor:
        if self.trainer.compute_loss_func is not None:
            return self._asked(whole, torch.tensor(count))
        try:
            return self._asked(whole, None)
        except TypeError:  # an override that divides by the count it is given
            return self._asked(whole, torch.tensor(count))

    def _asked(self, whole: Batch, count: Tensor | None) -> Tensor:
        inputs = {name: self._cast(value) for name, value in whole.items()}
        inputs = self.trainer._prepare_inputs(inputs)
        with torch.enable_grad():
            loss = self.trainer.compute_loss(
                self.model, inputs, num_items_in_batch=count
            )
        return loss.mean()

    def _cast(self, value):
        floating = isinstance(value, Tensor) and value.is_floating_point()
        return value.to(self.dtype) if floating else value

    def _fill(self) -> dict[str, int]:
        config = getattr(self.model, "config", None)
        text = getattr(config, "text_config", None)
        pad = getattr(config, "pad_token_id", None)
        pad = getattr(text, "pad_token_id", None) if pad is None else pad
        pad = pad if isinstance(pad, int) and pad >= 0 else 0
        return {"input_ids": pad, "decoder_input_ids": pad}


def shifts(trainer) -> bool:
    """Whether the loss is over labels[..., 1:], as in causal language models."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL,
    )

    known = getattr(trainer, "_loss_shifts_labels", None)
    return type(trainer.model).__name__ in CAUSAL.values() if known is None else known


def targets_of(batch: Batch, shifted: bool) -> int:
    """Labels of a micro-batch that count in the loss; its rows where it has none."""
    labels = batch.get("labels")
    if not isinstance(labels, Tensor):
        return rows_of(batch)
    if labels.is_floating_point():
        return labels.numel()
    return count_of(batch, shifted)
