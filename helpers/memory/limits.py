"""Trains under a memory budget, and fails as a device with that much memory fails."""

from __future__ import annotations

import gc
import inspect
import math
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from helpers.memory import messages
from helpers.memory.meter import Meter
from helpers.memory.units import readable


@contextmanager
def limit(
    budget: float,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
) -> Iterator[Meter]:
    """Raise `torch.OutOfMemoryError` where training would hold over `budget` bytes.

        with memory.limit(160 * MiB, model, optimizer) as meter:
            loss = model(**batch).loss
            loss.backward()

    On CUDA the cap is the allocator's own (it counts what it has reserved, cached
    blocks too), elsewhere a `Meter` refuses, to the byte. Yields that meter.

    After the error nothing of the failed step is left, so the next smaller batch
    works: what the traceback held is freed and all gradients of `model` are None, since
    half a backward pass has left some. An update that was under way cannot be undone;
    the message then says so.

    Args:
        budget: bytes, for example `160 * MiB`.
        model: the model that is trained.
        optimizer: its optimizer, where it has one.

    Raises:
        torch.OutOfMemoryError: in forward, backward or update, over the budget. Two
            lines at most: what was asked, what was in use, the limit.
        TypeError: `budget` is no number.
        ValueError: `budget` is not positive, or is less than is held already.
    """
    budget = _checked(budget)
    with Meter(model, optimizer, budget=budget) as meter, _allocator_cap(budget, model):
        held = sum(meter.live.values())
        if held > budget:
            raise ValueError(
                f"A limit of {readable(budget)} is less than what the model, its "
                f"gradients and the optimizer state hold already ({readable(held)}); "
                "set it above that."
            )
        try:
            yield meter
        except torch.OutOfMemoryError as error:
            if _in_update(error):
                messages.add_half_updated(error)
            _undo(error, model)
            raise


def _checked(budget: float) -> int:
    wanted = "a limit is a number of bytes above 0, for example 160 * memory.MiB."
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise TypeError(f"{budget!r} came; {wanted}")
    if not 0 < budget < math.inf:  # refuses NaN too
        raise ValueError(f"{budget!r} came; {wanted}")
    return int(budget)


@contextmanager
def _allocator_cap(budget: int, model: torch.nn.Module) -> Iterator[None]:
    """Cap the CUDA allocator at `budget` bytes; for other devices do nothing."""
    first = next(model.parameters(), None)
    if first is None or first.device.type != "cuda":
        yield
        return
    torch.cuda.empty_cache()  # cached blocks count against the cap
    # Not every torch has the getter; without it the cap was most likely not set.
    getter = getattr(torch.cuda.memory, "get_per_process_memory_fraction", None)
    earlier = getter(first.device) if getter else 1.0
    total = torch.cuda.get_device_properties(first.device).total_memory
    fraction = min(earlier, budget / total)
    torch.cuda.set_per_process_memory_fraction(fraction, first.device)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(earlier, first.device)


def _in_update(error: BaseException) -> bool:
    # Every optimizer's step runs inside a wrapper of this file. Its name must do: to
    # read a frame's f_locals would keep their copy, until Python 3.12 for good.
    wrapper = inspect.getfile(torch.optim.Optimizer)
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code.co_filename == wrapper for frame, _ in frames)


def _undo(error: BaseException, model: torch.nn.Module) -> None:
    """Free what the failed step keeps alive: frames of the traceback and gradients."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        # A frame that still runs, like the learner's cell, keeps its variables.
        traceback.clear_frames(link.__traceback__)
        chain.append(link)
        link = link.__cause__ or link.__context__
    for parameter in model.parameters():
        parameter.grad = None
    gc.collect()
