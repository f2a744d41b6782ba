"""Says in words what a forecast covers and what it cannot know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from helpers.memory.units import MiB, readable

if TYPE_CHECKING:
    from helpers.memory.fake import FakeTraining
    from helpers.memory.forecasts import Forecast

# Their CPU kernels take workspaces that no tensor shows.
_WORKSPACES = (nn.modules.conv._ConvNd, nn.RNNBase)
_ROWS = (1, 2, 4, 8, 16, 32, 64)


def notes(fake: FakeTraining, batch: Mapping[str, Tensor], proved: bool) -> list[str]:
    """One sentence for each thing that the reader of a forecast should know."""
    found = [
        f"Live bytes of tensors with the kernels of a {_name(fake.device)}, for texts "
        f"as long as make_batch's, from the second update on (the first one makes the "
        "optimizer state)."
    ]
    if fake.device.type == "cuda":
        found.append(
            "Not in it: cuBLAS workspaces, the allocator's rounding and fragments "
            "(calibrated() measures them by a small real update), and the CUDA context."
        )
    elif fake.device.type == "cpu":
        found.append(
            "A GPU's kernels save other tensors, for dropout and attention above all: "
            "run the forecast on the GPU machine to plan for it."
        )
    if not proved:
        found.append(
            "The operations or their sizes do not grow in line with the rows, so each "
            "number of rows is run on fake tensors by itself."
        )
    if fake.values.asked:
        found.append(
            f"{fake.values.asked} times the code asked for a tensor's value, which a "
            "fake tensor has not; the answer was 1, or False. What hangs on it may "
            "differ."
        )
    mask = batch.get("attention_mask")
    if mask is not None and bool(mask.all()):
        found.append(
            "The attention mask is all ones: a real run may drop it and take less. "
            "Give make_batch some padding to forecast a padded run."
        )
    kernels = {type(m).__name__ for m in fake.model.modules() if _has_workspace(m)}
    if kernels:
        found.append(
            f"{', '.join(sorted(kernels))}: such kernels take workspaces inside "
            "themselves, which no tensor shows; expect more."
        )
    if fake.autocast is torch.float16:
        found.append("The few scalars of the GradScaler are not in it.")
    return found


def text(forecast: Forecast) -> str:
    """The forecast as a small table with its notes."""
    autocast = forecast.settings["autocast"]
    precision = f"autocast {str(autocast).removeprefix('torch.')}"
    if autocast is None:
        precision = "no autocast"
    extras = ", checkpointing" if forecast.settings["checkpointing"] else ""
    lines = [
        f"{forecast.weights:,} weights, {forecast.optimizer}, {precision}{extras}; "
        f"floor {readable(forecast.floor)}",
        f"{'micro-batch':<12}{'peak MiB':>12}{'accumulated':>14}",
    ]
    for rows in _ROWS:
        once, more = forecast.peak(rows), forecast.peak(rows, 2)
        lines.append(f"{rows:<12}{once / MiB:>12,.1f}{more / MiB:>14,.1f}")
    return "\n".join([*lines, *(f"- {note}" for note in forecast.notes)])


def _has_workspace(module: nn.Module) -> bool:
    return isinstance(module, _WORKSPACES)


def _name(device: torch.device) -> str:
    return {"cpu": "CPU", "cuda": "GPU"}.get(device.type, str(device))
