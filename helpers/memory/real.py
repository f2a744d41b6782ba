"""One small real update, to hold a forecast against."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from helpers.memory.fake import (
    MakeBatch,
    MakeModel,
    MakeOptimizer,
    enable_checkpointing,
)
from helpers.memory.meter import Meter


def measured(
    make: tuple[MakeModel | nn.Module, MakeBatch, MakeOptimizer],
    settings: dict[str, Any],
    rows: int,
    accumulation_steps: int = 2,
    last: int | None = None,
) -> int:
    """Peak bytes of an update with micro-batches of `rows` rows, after a warm-up.

    On CUDA what the allocator reserved, since that is what `memory.limit` limits.

    Args:
        make: the functions that build model, micro-batch and optimizer; a model that
            is given is copied.
        settings: `autocast`, `checkpointing` and `device`, as `memory.forecast` has.
        last: rows of the last micro-batch, where it has others.
    """
    from helpers import training

    make_model, make_batch, make_optimizer = make
    given = isinstance(make_model, nn.Module)
    model = copy.deepcopy(make_model) if given else make_model()
    model = model.to(settings["device"]).train()
    if settings["checkpointing"]:
        enable_checkpointing(model)
    optimizer = make_optimizer(model.parameters())
    sizes = [rows] * (accumulation_steps - 1) + [last or rows]
    window = [make_batch(size) for size in sizes]
    autocast = settings["autocast"]
    scaler = torch.amp.GradScaler(
        settings["device"].type, enabled=autocast is torch.float16
    )

    def update() -> None:
        training.accumulate(model, window, autocast=autocast, scale=scaler.scale)
        training.update(model, optimizer, scaler=scaler)

    update()  # the optimizer state appears with the first
    with Meter(model, optimizer) as meter:
        update()
    return meter.reserved or meter.peak
