"""What an out-of-memory error says: how much was asked, in use, and allowed."""

from __future__ import annotations

import re

import torch

from helpers.memory.units import readable


def over_budget(asked: int, used: int, budget: float) -> torch.OutOfMemoryError:
    """The error for an operation that would go over a budget (all in bytes)."""
    # Accelerate recognises an error to retry by the words " out of memory.".
    return torch.OutOfMemoryError(
        f"Training is out of memory. It asked for {readable(asked)} more while "
        f"{readable(used)} were in use; the limit is {readable(budget)}."
    )


def shorten(error: torch.OutOfMemoryError, device: torch.device, budget: float) -> None:
    """Cut the CUDA allocator's long message to the same three figures, in place."""
    start = re.match(r"CUDA out of memory\. Tried to allocate [\d.]+ \w+", str(error))
    if start:
        used = readable(torch.cuda.memory_allocated(device))
        cached = readable(torch.cuda.memory_reserved(device))
        error.args = (
            f"{start[0]} more while {used} were in use ({cached} with what the "
            f"allocator keeps for reuse); the limit is {readable(budget)}.",
        )


def add_half_updated(error: torch.OutOfMemoryError) -> None:
    """Say, in place, that the update was under way and cannot be undone."""
    error.args = (
        f"{error}\nIt came in optimizer.step(), so weights and optimizer state are "
        "half updated: make both anew.",
    )
