"""Training on several processes: what the shared loop asks of the others.

Each process holds the same model, wrapped in DistributedDataParallel (DDP), and its own
micro-batches. DDP takes the mean of the gradients over the processes while a backward
runs. With a model that is not wrapped, every function here does nothing: the process is
alone. All exchange goes through torch.distributed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from .launch_guard import MARK

T = TypeVar("T")


def start() -> torch.device:
    """Join the other processes of this run; the device that this one computes on.

    NCCL where every process of this machine has a GPU of its own, else gloo on the
    CPU. `python -m torch.distributed.run` has set what it reads (RANK, WORLD_SIZE,
    LOCAL_RANK, ...).

    Raises:
        RuntimeError: this process was not started so.
    """
    if "RANK" not in os.environ:
        raise RuntimeError(
            "This process was not started with others: run the script by "
            "`python -m torch.distributed.run`, or from a notebook by `launch.run`."
        )
    own, here = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    torch.set_num_threads(1)  # the processes share the machine
    if here <= torch.cuda.device_count():
        torch.cuda.set_device(own)
        distributed.init_process_group("nccl", device_id=torch.device("cuda", own))
        return torch.device("cuda", own)
    distributed.init_process_group("gloo")
    return torch.device("cpu")


def wrap(model: nn.Module, **options: Any) -> DistributedDataParallel:
    """The model in DDP, on the device that it is on; `options` go to DDP."""
    device = next(model.parameters()).device
    ids = [device.index] if device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=ids, **options)


def report(**values: Any) -> None:
    """Print one line of JSON with this process's rank; `launch.run` reads it back."""
    print(MARK + json.dumps({"rank": int(os.environ["RANK"])} | values), flush=True)


def several(model: nn.Module) -> bool:
    """Whether other processes train this model too: it is wrapped in DDP."""
    return isinstance(model, DistributedDataParallel)


def size(model: nn.Module) -> int:
    """How many processes train this model."""
    return distributed.get_world_size(model.process_group) if several(model) else 1


def first(model: nn.Module) -> bool:
    """Whether this process is the one that speaks for all."""
    return not several(model) or distributed.get_rank(model.process_group) == 0


def bare(model: nn.Module) -> nn.Module:
    """The model without its wrapper."""
    return model.module if several(model) else model


def total(model: nn.Module, number: float) -> float:
    """A number summed over all processes, in float64; each must call this."""
    if not several(model):
        return number
    device = next(model.parameters()).device
    held = torch.tensor(number, dtype=torch.float64, device=device)
    distributed.all_reduce(held, group=model.process_group)
    return type(number)(held.item())


def gather(model: nn.Module, items: list[T]) -> list[T]:
    """The lists of all processes, put together by rank; each must call this."""
    if not several(model):
        return items
    lists: list[Any] = [None] * size(model)
    distributed.all_gather_object(lists, items, group=model.process_group)
    return list(itertools.chain.from_iterable(lists))


def together(model: nn.Module, windows: Iterable[list[T]]) -> Iterator[list[T]]:
    """This process's windows, then empty ones until all processes are through."""
    windows = iter(windows)
    while total(model, len(window := next(windows, []))):
        yield window


def exchange(model: nn.Module, rest: list[int]) -> contextlib.AbstractContextManager:
    """Around forward and backward: hold the exchange back until the last of a window.

    `rest` has the targets of the micro-batches that are still to come.
    """
    if not several(model) or not any(rest):
        return contextlib.nullcontext()
    return model.no_sync()


def take_part(model: nn.Module) -> None:
    """Exchange what `.grad` holds, with no micro-batch of one's own.

    DDP waits until each process has run a backward. This one runs through a sum of no
    weights at all: its gradient is 0 for every weight, whatever they hold.
    """
    if not several(model):
        return
    module = model.module

    def nothing(*_: Any) -> torch.Tensor:
        return sum(
            p.flatten()[:0].sum() for p in module.parameters() if p.requires_grad
        )

    own = vars(module).get("forward")  # Accelerate puts its own here
    module.forward = nothing
    try:
        model(torch.zeros(())).backward()
    finally:
        del module.forward
        if own is not None:
            module.forward = own


class _Share:
    """Every `step`-th item from number `first` on."""

    def __init__(self, items: Iterable, first: int, step: int) -> None:
        self.items, self.first, self.step = items, first, step

    def __iter__(self) -> Iterator:
        return itertools.islice(iter(self.items), self.first, None, self.step)

    def __len__(self) -> int:
        return len(range(self.first, len(self.items), self.step))


def share(loader: Iterable[T], rank: int | None = None, size: int | None = None):
    """This process's micro-batches: every `size`-th of the loader, from `rank` on.

    No row is left out and none is given twice, so the last window may find a process
    with fewer micro-batches, or with none. Together the windows of all processes hold
    the rows that one process would have, in windows `size` times as long.

    Args:
        loader: a DataLoader, or any sequence of micro-batches.
        rank, size: number of this process, and of all; those of this run if left out.

    Raises:
        ValueError: the loader shuffles with a generator that each process draws from
            for itself, so that their orders would differ.
    """
    from torch.utils.data import DataLoader, RandomSampler

    rank = distributed.get_rank() if rank is None else rank
    size = distributed.get_world_size() if size is None else size
    if not isinstance(loader, DataLoader):
        return _Share(loader, rank, size)
    sampler = getattr(loader, "sampler", None)
    if isinstance(sampler, RandomSampler) and sampler.generator is None:
        raise ValueError(
            "This loader shuffles, and each process would draw an order of its own; "
            "give the loader generator=torch.Generator().manual_seed(0)."
        )
    return DataLoader(
        loader.dataset,
        batch_sampler=_Share(loader.batch_sampler, rank, size),
        collate_fn=loader.collate_fn,
        generator=loader.generator,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
    )


@dataclass
class Exchanges:
    """What DDP sent: the bytes of each bucket that was all-reduced, in order."""

    buckets: list[int] = field(default_factory=list)

    @property
    def calls(self) -> int:
        """All-reduces so far, one a bucket."""
        return len(self.buckets)

    @property
    def bytes(self) -> int:
        """Bytes of gradient in them."""
        return sum(self.buckets)


def count_exchanges(model: DistributedDataParallel) -> Exchanges:
    """Count the all-reduces of a model wrapped in DDP from now on.

    It is DDP's own all-reduce, called from a communication hook
    (https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html); a model takes one hook.
    """
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    seen = Exchanges()

    def hook(group, bucket):
        seen.buckets.append(bucket.buffer().nbytes)
        return default_hooks.allreduce_hook(group, bucket)

    model.register_comm_hook(model.process_group, hook)
    return seen
