"""What is shown and measured while the training loop runs: its bar and its peak."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch


def progress_bar(loader: Iterable, accumulation_steps: int, text: str, show: bool):
    """A bar that counts updates; without a total where the loader has no length."""
    from tqdm.auto import tqdm

    size = len(loader) if hasattr(loader, "__len__") else None
    total = None if size is None else math.ceil(size / accumulation_steps)
    return tqdm(total=total, desc=text, unit="update", leave=False, disable=not show)


def reset_peak(device: torch.device, meter) -> None:
    """Begin to watch for the most bytes alive at once."""
    if meter is not None:
        meter.reset_peak()
    elif device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device, meter) -> int | None:
    """The most bytes since then; None where nothing measures."""
    if meter is not None:
        return meter.peak
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
