"""What the checks of lesson 3 run a learner's code on: a small Accelerate training."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from accelerate import Accelerator
from accelerate.state import GradientState
from torch.utils.data import DataLoader

from .. import runtime
from ..equivalence import Comparison, Reference, compare, gradient, reference
from ..exercises import call
from .probe import Probe, micro_batches

RATE = 0.2


class Counting(Accelerator):
    """Counts for which models the exchange of gradients is held back, by id."""

    def __init__(self, **options) -> None:
        super().__init__(**options)
        self.held_back: Counter[int] = Counter()

    def no_sync(self, model):
        self.held_back[id(model)] += 1
        return super().no_sync(model)


@contextlib.contextmanager
def accelerator(steps: int) -> Iterator[Counting]:
    """An Accelerator of our own; what all of them share is afterwards as it was."""
    state = GradientState()
    before = state.plugin_kwargs.copy(), state.sync_gradients
    on_cpu = runtime.device().type == "cpu"
    try:
        made = Counting(cpu=on_cpu, gradient_accumulation_steps=steps)
        made.sync_gradients = True
        yield made
    finally:
        state.plugin_kwargs, state.sync_gradients = before


@dataclass
class Update:
    """What stood in `.grad` when the optimizer stepped, and what should have."""

    gradient: dict[str, torch.Tensor]
    wanted: Reference | None
    alone: Reference | None  # of the last micro-batch of the window
    rate: float

    def compared(self, max_norm: float = math.inf) -> Comparison:
        """With the reference, clipped to `max_norm`."""
        factor = min(1.0, max_norm / norm(self.wanted))
        clipped = {name: g * factor for name, g in self.wanted.gradient.items()}
        return compare(self.gradient, Reference(clipped, 0.0, 0))

    @property
    def only_the_last(self) -> bool:
        """Whether it points the way of the window's last micro-batch."""
        return compare(self.gradient, self.alone).residual < 1e-9


@dataclass
class Bench:
    """A model and what trains it; `plain_...` is what lies inside the wrapper."""

    accelerator: Counting
    model: Probe
    loader: DataLoader
    plain_optimizer: torch.optim.Optimizer
    plain_scheduler: torch.optim.lr_scheduler.LambdaLR
    windows: list
    updates: list[Update] = field(default_factory=list)

    def prepare(self):
        """Model, loader, optimizer and scheduler, prepared."""
        return self.accelerator.prepare(
            self.model, self.loader, self.plain_optimizer, self.plain_scheduler
        )


@contextlib.contextmanager
def bench(seed: int, sizes: list[int], steps: int) -> Iterator[Bench]:
    """A training of micro-batches of these sizes, whose updates are noted."""
    model, batches = Probe(seed).to(runtime.device()), micro_batches(sizes, seed)
    loader = DataLoader(batches, batch_size=1, collate_fn=lambda rows: rows[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda u: 1 / (1 + u))
    windows = [batches[i : i + steps] for i in range(0, len(batches), steps)]
    with accelerator(steps) as own:
        made = Bench(own, model, loader, optimizer, plan, windows)

        def look(*_: object) -> None:
            due = made.windows[len(made.updates) :][:1]
            wanted = [reference(model, w) for w in due] or [None]
            alone = [reference(model, w[-1]) for w in due] or [None]
            rate = optimizer.param_groups[0]["lr"]
            made.updates.append(Update(gradient(model), wanted[0], alone[0], rate))

        optimizer.register_step_pre_hook(look)
        yield made


def norm(found: Reference) -> float:
    """The length of a reference gradient."""
    return math.sqrt(sum(g.square().sum().item() for g in found.gradient.values()))


def quietly(answer, *args):
    """Run an answer; that a scheduler moves too early, the check says in its words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return call(answer, *args)
