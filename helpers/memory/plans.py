"""Chooses micro-batch and accumulation steps for a memory budget, by forecast."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from helpers.memory.forecasts import Forecast
from helpers.memory.units import readable


@dataclass(frozen=True)
class Plan:
    """How to train with an effective batch in a budget.

    Attributes:
        micro_batch: rows of a micro-batch, the most that fit.
        accumulation_steps: micro-batches in a window.
        last: rows of the last micro-batch of a window; micro_batch where it divides.
        even: the largest (micro-batch, accumulation steps) that fit and divide the
            effective batch, for tools that take one size only.
        peak, budget: bytes.
    """

    micro_batch: int
    accumulation_steps: int
    last: int
    even: tuple[int, int]
    peak: int
    budget: int

    @property
    def effective_batch(self) -> int:
        """Rows of an update."""
        return self.micro_batch * (self.accumulation_steps - 1) + self.last

    def batches(self, rows: Sequence[int]) -> Iterator[list[int]]:
        """Cut row numbers into micro-batches, window by window, for a DataLoader.

            DataLoader(dataset, batch_sampler=list(plan.batches(range(len(dataset)))))

        Each window has the effective batch, the last one of all what is left.
        """
        for start in range(0, len(rows), self.effective_batch):
            window = rows[start : start + self.effective_batch]
            for first in range(0, len(window), self.micro_batch):
                yield list(window[first : first + self.micro_batch])

    def __str__(self) -> str:
        tail = "" if self.last == self.micro_batch else f", the last one of {self.last}"
        even = ""
        if tail:
            even = f"; in equal parts {self.even[1]} of {self.even[0]}"
        return (
            f"effective batch {self.effective_batch}: {self.accumulation_steps} "
            f"micro-batches of {self.micro_batch} rows{tail}{even}; peak "
            f"{readable(self.peak)} of {readable(self.budget)}"
        )


def plan(forecast: Forecast, budget: float, effective_batch: int) -> Plan:
    """The largest micro-batch that fits, with the effective batch kept exactly.

    Nothing is run, so nothing runs out of memory. A window of several micro-batches
    holds one more copy of the gradients than a single one does, while the next forward
    pass runs; the forecast counts it.

    Args:
        forecast: of the training.
        budget: bytes, for example `15 * GiB`.
        effective_batch: rows of an update.

    Raises:
        ValueError: numbers out of range, or a budget that one row does not fit in; it
            says by how much, and what would lower the need.
    """
    number = isinstance(budget, (int, float)) and not isinstance(budget, bool)
    if not number or not 0 < budget < math.inf:
        raise ValueError(
            f"budget is {budget!r}; a budget is a number of bytes above 0, for example "
            "15 * memory.GiB."
        )
    whole = isinstance(effective_batch, int) and not isinstance(effective_batch, bool)
    if not whole or effective_batch < 1:
        raise ValueError(
            f"effective_batch is {effective_batch!r}; it must be a whole number from 1 "
            "on: the rows of an update."
        )
    rows = _largest(forecast, budget, effective_batch)
    if rows is None:
        raise ValueError(_below(forecast, int(budget), effective_batch))
    fitting = (
        size
        for size in range(rows, 0, -1)
        if effective_batch % size == 0
        and forecast.peak(size, effective_batch // size) <= budget
    )
    even = next(fitting)
    steps, last = window(rows, effective_batch)
    return Plan(
        micro_batch=rows,
        accumulation_steps=steps,
        last=last,
        even=(even, effective_batch // even),
        peak=forecast.peak(rows, steps, last),
        budget=int(budget),
    )


def window(rows: int, effective_batch: int) -> tuple[int, int]:
    """Accumulation steps, and the rows of the last micro-batch."""
    steps = math.ceil(effective_batch / rows)
    return steps, effective_batch - rows * (steps - 1)


def _largest(forecast: Forecast, budget: float, effective_batch: int) -> int | None:
    """The largest micro-batch that fits."""
    # Whether it fits does not fall with the rows: 33 + 31 rows hold the first
    # gradients beside 31 rows, 32 + 32 beside 32. The first micro-batch alone does,
    # and gives the size above which none can fit.
    low, high = 0, effective_batch + 1
    while high - low > 1:
        middle = (low + high) // 2
        if forecast.peak(middle) <= budget:
            low = middle
        else:
            high = middle
    for rows in range(low, 0, -1):
        if forecast.peak(rows, *window(rows, effective_batch)) <= budget:
            return rows
    return None


def _below(forecast: Forecast, budget: int, effective_batch: int) -> str:
    split = forecast.at_peak(1, effective_batch)
    need = sum(split.values())
    parts = ", ".join(f"{kind} {readable(size)}" for kind, size in split.items())
    ways = []
    if split["optimizer state"]:
        ways.append("an optimizer with less state (SGD has none)")
    if split["activations"] > need / 20 and not forecast.settings["checkpointing"]:
        ways.append("checkpointing=True, for the activations")
    ways.append("fewer trained weights (LoRA), for gradients and optimizer state")
    ways.append("shorter texts or a smaller model")
    return (
        f"The budget of {readable(budget)} is {readable(need - budget)} too small: one "
        f"row alone takes {readable(need)} ({parts}), and accumulation cannot lower "
        "that. "
        f"What can: {'; '.join(ways)}."
    )
