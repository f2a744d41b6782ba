"""What the training loop says when it is given something it cannot train on."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from .processes import several

Batch = Mapping[str, Tensor]


def steps(accumulation_steps: int) -> int:
    """The number of micro-batches in a full window, checked."""
    whole = isinstance(accumulation_steps, int) and not isinstance(
        accumulation_steps, bool
    )
    if not whole or accumulation_steps < 1:
        raise ValueError(
            f"accumulation_steps is {accumulation_steps!r}; it must be a whole number "
            "of at least 1: the micro-batches in a full window."
        )
    return accumulation_steps


def check_run(
    model: nn.Module,
    loader: Iterable[Batch],
    optimizer: torch.optim.Optimizer,
    accumulation_steps: int,
    epochs: int,
) -> None:
    """Refuse what cannot work before anything is changed.

    Raises:
        ValueError: accumulation_steps or epochs below 1, an empty loader, or an
            optimizer that holds no weight of the model.
    """
    steps(accumulation_steps)
    if not isinstance(epochs, int) or epochs < 1:
        raise ValueError(f"epochs is {epochs!r}; it must be a whole number from 1 on.")
    # One of several processes may have no row, as long as another has some.
    if hasattr(loader, "__len__") and len(loader) == 0 and not several(model):
        raise ValueError("The loader has length 0; give it at least one row.")
    weights = {id(p) for p in model.parameters()}
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not weights & held:
        raise ValueError(
            "The optimizer holds no weight of this model, so no step would change it; "
            "make the optimizer from this model's parameters()."
        )


def check_labels(model: nn.Module, window: list[Batch], targets: int) -> None:
    """Refuse a window without a target and labels that the head has no class for.

    A label out of range stops a CUDA device for good, hence the look beforehand.
    """
    if targets == 0:
        raise ValueError(
            f"None of the {len(window)} micro-batches of this window has a target: "
            "every label is -100, so there is no loss to learn from."
        )
    heads = ("ForSequenceClassification", "ForTokenClassification")
    if not type(model).__name__.endswith(heads):
        return
    classes = model.config.num_labels
    for batch in window:
        labels = batch["labels"]
        if labels.is_floating_point():  # regression or several labels a row
            continue
        low, high = int(labels.min()), int(labels.max())
        if high >= classes or (low < 0 and low != -100):
            raise ValueError(
                f"Labels run from {low} to {high}, and the model has {classes} "
                f"classes, 0 to {classes - 1}; make it with num_labels={high + 1} or "
                "mend the labels."
            )


@contextlib.contextmanager
def explain_out_of_memory(
    batch: Batch, number: int, window: list[Batch]
) -> Iterator[None]:
    """Say which micro-batch did not fit, and what to try; hold on to no tensor."""
    try:
        yield
        return
    except torch.OutOfMemoryError as error:
        traceback.clear_frames(error.__traceback__)
        cause = str(error)
    # Raised out here so that the first error, whose frames hold activations, is gone.
    raise torch.OutOfMemoryError(_advice(batch, number, window, cause))


def _advice(batch: Batch, number: int, window: list[Batch], cause: str) -> str:
    shape = tuple(next(iter(batch.values())).shape)
    text = f"Micro-batch {number} of {len(window)} in this window, "
    text += f"{' x '.join(map(str, shape))}, ran out of memory. "
    rows = shape[0]
    if rows > 1:
        smaller = rows // 2 if rows % 2 == 0 else 1
        text += (
            f"Try micro-batches of {smaller} rows and {rows // smaller} times the "
            "accumulation steps: the effective batch stays the same. "
        )
    else:
        text += "It has one row already; see what lesson 7 does below that. "
    return text + f"({cause})"
