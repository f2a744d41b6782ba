"""The shared training loop: windows of micro-batches, one update each.

A window is known before its first backward, so its number of targets is too. Each
micro-batch adds `sum of its losses / targets of the window`; short last windows, ragged
last batches and unequal token counts then come out right, with no modulo arithmetic.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from .history import History, Update
from .processes import bare, exchange, first, gather, size, take_part, together, total
from .training_faults import check_labels, check_run, explain_out_of_memory, steps
from .training_watch import peak_bytes, progress_bar, reset_peak

Batch = Mapping[str, Tensor]


def windows(loader: Iterable[Batch], accumulation_steps: int) -> Iterator[list[Batch]]:
    """Cut a loader into windows: lists of `accumulation_steps` micro-batches.

    The last window is shorter where the loader does not divide.

    Raises:
        ValueError: accumulation_steps is not a whole number of at least 1.
    """
    size = steps(accumulation_steps)
    batches = iter(loader)
    return iter(lambda: list(itertools.islice(batches, size)), [])


def count_targets(batch: Batch) -> int:
    """How many labels of a micro-batch count in the loss (-100 is ignored)."""
    if "labels" not in batch:
        raise ValueError(
            f"The micro-batch has {', '.join(batch) or 'nothing'} and no `labels`; "
            "the loss needs them."
        )
    return int((batch["labels"] != -100).sum())


def summed_loss(model: nn.Module, batch: Batch, targets: int) -> Tensor:
    """Sum of the losses of a micro-batch: the model's mean loss times its targets."""
    loss = model(**batch).loss
    if loss is None:
        raise ValueError(
            f"{type(model).__name__} returned no loss; it must compute its mean loss "
            "when it is called with `labels`."
        )
    return loss * targets


def accumulate(
    model: nn.Module,
    window: list[Batch],
    *,
    count_targets: Callable[[Batch], int] = count_targets,
    autocast: torch.dtype | None = None,
    scale: Callable[[Tensor], Tensor] = lambda loss: loss,
) -> tuple[float, int]:
    """Add the gradient of a window's mean loss to `.grad`, a micro-batch at a time.

    Args:
        window: micro-batches, on any device; each goes to the model's device in turn.
        count_targets: how many labels of a micro-batch the model's mean loss is over.
        autocast: forward in torch.bfloat16 or torch.float16, or None.
        scale: what a GradScaler does to the loss before backward.

    Returns:
        The mean loss over the window's targets, and their number.

    Raises:
        ValueError: no target in the whole window, or labels that do not fit the model.
        torch.OutOfMemoryError: names the micro-batch that did not fit.
    """
    device = next(model.parameters()).device
    counts = [count_targets(batch) for batch in window]
    targets = total(model, sum(counts))  # over all processes, as is the loss
    mean_targets = targets / size(model)  # as they take the mean of their gradients
    check_labels(bare(model), window, targets)
    loss: Tensor | float = 0.0
    for number, (batch, count) in enumerate(zip(window, counts, strict=True), 1):
        if count == 0:  # nothing to learn here, and its mean loss would be 0 / 0
            continue
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        rest = counts[number:]
        with explain_out_of_memory(batch, number, window), exchange(model, rest):
            with torch.autocast(device.type, autocast, enabled=autocast is not None):
                share = summed_loss(model, batch, count) / mean_targets
            scale(share).backward()
        loss = loss + share.detach()
    if not any(counts):
        take_part(model)
    return total(model, float(loss)) / size(model), targets


def train(
    model: nn.Module,
    loader: Iterable[Batch],
    *,
    optimizer: torch.optim.Optimizer,
    accumulation_steps: int = 1,
    epochs: int = 1,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
    max_norm: float | None = None,
    autocast: torch.dtype | None = None,
    validation: Iterable[Batch] | None = None,
    count_targets: Callable[[Batch], int] = count_targets,
    meter=None,
    progress: bool = True,
) -> History:
    """Train with batches that do not fit: one update a window.

    Args:
        model: called as `model(**batch)`, gives its mean loss as `.loss`.
        loader: gives micro-batches: `labels` and what the model takes, (rows, ...).
        accumulation_steps: micro-batches in a full window.
        scheduler: stepped once an update.
        max_norm: clip the gradient of the window to this length.
        autocast: torch.bfloat16, or torch.float16 (with a GradScaler), or None.
        validation: a loader to evaluate on after each epoch.
        count_targets: how many labels of a micro-batch the model's mean loss is over.
        meter: a running `memory.Meter` to read peaks from; CUDA needs none.

    Returns:
        The `History`; after a keyboard interrupt, what there was until then.

    Raises:
        ValueError: arguments, batches or labels that cannot be trained on.
        torch.OutOfMemoryError: says which micro-batch did not fit and what to try.
    """
    check_run(model, loader, optimizer, accumulation_steps, epochs)
    history = History()
    device = next(model.parameters()).device
    scaler = torch.amp.GradScaler(device.type, enabled=autocast is torch.float16)
    optimizer.zero_grad()
    try:
        for epoch in range(1, epochs + 1):
            model.train()
            before = len(history.updates)
            show = progress and first(model)
            bar = progress_bar(loader, accumulation_steps, f"epoch {epoch}", show)
            for window in together(model, windows(loader, accumulation_steps)):
                start = time.perf_counter()
                reset_peak(device, meter)
                loss, targets = accumulate(
                    model,
                    window,
                    count_targets=count_targets,
                    autocast=autocast,
                    scale=scaler.scale,
                )
                rate = optimizer.param_groups[0]["lr"]
                norm = update(model, optimizer, scheduler, max_norm, scaler)
                seconds, peak = time.perf_counter() - start, peak_bytes(device, meter)
                history.updates.append(Update(loss, rate, norm, targets, seconds, peak))
                bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
                bar.update()
            bar.close()
            if len(history.updates) == before:
                raise ValueError(
                    f"The loader gave no micro-batch in epoch {epoch}; give a loader "
                    "that can be read anew in every epoch and is not empty."
                )
            if validation is not None:
                scores = evaluate(model, validation, count_targets=count_targets)
                done = {"epoch": epoch, "update": len(history.updates)}
                history.evaluations.append(done | scores)
    except KeyboardInterrupt:
        history.interrupted = True
    finally:
        optimizer.zero_grad()  # half a window must not leak into the next run
    return history


def update(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
    max_norm: float | None = None,
    scaler: torch.amp.GradScaler | None = None,
) -> float:
    """Clip, step, schedule, zero: once a window. Returns the norm before clipping."""
    scaler = scaler or torch.amp.GradScaler("cpu", enabled=False)
    scaler.unscale_(optimizer)
    limit = math.inf if max_norm is None else max_norm
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    scaler.step(optimizer)
    scale = scaler.get_scale()
    scaler.update()
    skipped = scaler.get_scale() < scale  # fp16 overflowed: no step was made
    if scheduler is not None and not skipped:
        scheduler.step()
    optimizer.zero_grad()
    return norm.item()


@torch.no_grad()
def evaluate(
    model: nn.Module,
    loader: Iterable[Batch],
    *,
    count_targets: Callable[[Batch], int] = count_targets,
) -> dict[str, float]:
    """Mean loss over all targets; with two classes also accuracy and F1 of class 1."""
    everyone, model = model, bare(model)  # without gradients, DDP has nothing to do
    device, training = next(model.parameters()).device, model.training
    loss, targets, classes = 0.0, 0, []
    model.eval()
    for batch in loader:
        count = count_targets(batch)
        if count == 0:  # its mean loss is 0 / 0
            continue
        output = model(**{name: t.to(device) for name, t in batch.items()})
        loss += output.loss.item() * count
        targets += count
        if output.logits.ndim == 2 and output.logits.shape[-1] == 2:
            chosen = output.logits.argmax(-1).tolist()
            classes += zip(chosen, batch["labels"].tolist(), strict=True)
    model.train(training)
    loss, targets = total(everyone, loss), total(everyone, targets)
    if not targets:
        raise ValueError("The validation loader gave no target; give rows with labels.")
    return {"loss": loss / targets} | _scores(gather(everyone, classes))


def _scores(classes: list[tuple[int, int]]) -> dict[str, float]:
    from .metrics import accuracy_f1

    if not classes:
        return {}
    predictions, references = zip(*classes, strict=True)
    return accuracy_f1().compute(predictions=predictions, references=references)
