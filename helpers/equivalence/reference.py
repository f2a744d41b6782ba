"""The reference gradient: one backward over the whole effective batch, in float64."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

IGNORED = -100  # the label that PyTorch's cross-entropy leaves out of the loss

Batch = Mapping[str, Tensor]


@dataclass(frozen=True)
class Reference:
    """What one backward over the whole effective batch gives.

    Attributes:
        gradient: name of a parameter -> its gradient, float64, on the CPU.
        loss: mean loss over the targets.
        targets: number of labels that count in the loss; the first of each row does
            not where the loss is shifted by one.
    """

    gradient: dict[str, Tensor]
    loss: float
    targets: int

    def __repr__(self) -> str:
        size = sum(g.numel() for g in self.gradient.values())
        return (
            f"Reference: gradient of {size:,} weights, "
            f"loss {self.loss:.4f} over {self.targets} targets"
        )


def join(
    batches: Iterable[Batch], fill: Mapping[str, int] | None = None
) -> dict[str, Tensor]:
    """Put micro-batches together as one batch, padded to the longest row.

    Args:
        batches: each maps names to tensors of shape (rows, ...); every further axis may
            be of another length in each.
        fill: name -> what to pad it with. Labels are padded with -100 and everything
            else with 0, which an attention mask hides.

    Returns:
        The same names; tensors of shape (all rows, longest, ...).

    Raises:
        ValueError: there is no batch, or the batches differ in their names.
    """
    batches = [dict(batch) for batch in batches]
    if not batches:
        raise ValueError("There is no micro-batch to join; give at least one.")
    names = list(batches[0])
    if any(set(batch) != set(names) for batch in batches):
        raise ValueError(
            "The micro-batches hold different names: "
            + "; ".join(", ".join(sorted(b)) for b in batches)
        )
    fills = {"labels": IGNORED, **(fill or {})}
    return {
        name: _stack([batch[name] for batch in batches], fills.get(name, 0))
        for name in names
    }


def _stack(tensors: list[Tensor], fill: int) -> Tensor:
    axes = range(1, tensors[0].ndim)
    longest = [max(tensor.shape[axis] for tensor in tensors) for axis in axes]
    padded = []
    for tensor in tensors:
        missing = [size - tensor.shape[i] for i, size in enumerate(longest, 1)]
        ends = [end for size in reversed(missing) for end in (0, size)]
        padded.append(nn.functional.pad(tensor, ends, value=fill))
    return torch.cat(padded)


def reference(model: nn.Module, batches: Batch | Iterable[Batch]) -> Reference:
    """The gradient that every way of accumulating has to reproduce.

    A copy of the model in float64, dropout off, takes the whole effective batch in one
    forward and one backward of its own mean loss. The model itself is left as it is.

    Args:
        model: called as `model(**batch)`, gives an output with `.loss`, the mean over
            the targets.
        batches: the micro-batches of one window, or one batch.

    Raises:
        ValueError: no micro-batch, no target in any of them, or a model without a loss.
    """
    whole = join([batches] if isinstance(batches, Mapping) else batches)
    if "labels" not in whole or not count_of(whole, shifted=False):
        raise ValueError(
            "No label counts in the loss: `labels` is missing or -100 in every row, "
            "so there is no gradient to refer to."
        )
    twin = without_dropout(copy.deepcopy(model))
    device = next(twin.parameters()).device
    if device.type == "mps":  # has no float64
        device = torch.device("cpu")
    twin.to(device=device, dtype=torch.float64).zero_grad(set_to_none=True)
    whole = {name: _wide(tensor, device) for name, tensor in whole.items()}
    with torch.enable_grad():
        loss = twin(**whole).loss
        if loss is None:
            raise ValueError(
                f"{type(model).__name__} returned no loss; it must compute its mean "
                "loss when it is called with `labels`."
            )
        loss.backward()
    with torch.no_grad():
        shifted = drops_first(whole, lambda batch: twin(**batch).loss.item())
    return Reference(gradient(twin), loss.item(), count_of(whole, shifted))


def drops_first(batch: Batch, loss_of: Callable[[Batch], float]) -> bool:
    """Whether a loss leaves out labels[..., 0]: it is then the same without them.

    `loss_of` is asked twice, and has to divide by the same number if it gets one.
    """
    labels = batch.get("labels")
    if not isinstance(labels, Tensor) or labels.is_floating_point():
        return False
    if labels.ndim < 2 or not (labels[..., 0] != IGNORED).any():
        return False
    without = labels.clone()
    without[..., 0] = IGNORED
    if not (without != IGNORED).any():
        return False
    return loss_of(batch) == loss_of({**batch, "labels": without})


def count_of(batch: Batch, shifted: bool) -> int:
    """Labels that count in the loss: not those of -100, nor the first if shifted."""
    labels = batch["labels"]
    if shifted and labels.ndim > 1:
        labels = batch.get("shift_labels", labels[..., 1:])
    return int((labels != IGNORED).sum())


def _wide(tensor: Tensor, device: torch.device) -> Tensor:
    tensor = tensor.to(device)
    return tensor.double() if tensor.is_floating_point() else tensor


def without_dropout(model: nn.Module) -> nn.Module:
    """Switch dropout off and leave batch normalisation in the mode it was in."""
    normalisations = [
        (m, m.training)
        for m in model.modules()
        if isinstance(m, nn.modules.batchnorm._BatchNorm)
    ]
    model.eval()
    for module, training in normalisations:
        module.train(training)
    return model


def gradient(model: nn.Module) -> dict[str, Tensor]:
    """A copy of `.grad`: name -> float64 on the CPU, zero where it is None."""
    return {
        name: (torch.zeros_like(p) if p.grad is None else p.grad)
        .detach()
        .to("cpu", torch.float64, copy=True)
        for name, p in model.named_parameters()
        if p.requires_grad
    }
