"""Forecasts the memory of training, without the memory.

Every tensor of a step is a·rows + c bytes large, so the bytes alive after each
operation lie on a line, and the peak is the highest of those lines. Two runs on fake
tensors give the lines, a third one, with more rows, proves them. A line through two
peaks would not do: the peak moves from one operation to another.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace

import numpy
import torch
from torch import nn

from helpers import runtime
from helpers.memory import coverage
from helpers.memory.fake import (
    FakeTraining,
    MakeBatch,
    MakeModel,
    MakeOptimizer,
    Window,
)
from helpers.memory.ledger import ACTIVATIONS, KINDS
from helpers.memory.units import readable

PROBES = (2, 3, 5)  # rows


def forecast(
    make_model: MakeModel | nn.Module,
    make_batch: MakeBatch,
    make_optimizer: MakeOptimizer = torch.optim.AdamW,
    *,
    autocast: torch.dtype | None = None,
    checkpointing: bool = False,
    device: torch.device | str | None = None,
) -> Forecast:
    """Foretell the peak bytes of `training.train` for every micro-batch, using none.

        costs = memory.forecast(make_model, make_batch, torch.optim.AdamW)
        costs.peak(micro_batch=16, accumulation_steps=4)        # bytes

    Args:
        make_model: a function that builds the model, which may be too large to exist
            here, or a model, which stays as it is.
        make_batch: called with a number of rows, gives a micro-batch: a dict of
            tensors (rows, ...), as long as the longest that will come.
        make_optimizer: called with the parameters, gives the optimizer.
        autocast: torch.bfloat16 or torch.float16, as in `training.train`, or None.
        checkpointing: with the model's own gradient checkpointing.
        device: where it would train; this machine's GPU, or else its CPU.

    Raises:
        ValueError: no micro-batch or no loss, or checkpointing that the model lacks.
    """
    where = torch.device(device) if device is not None else runtime.device()
    settings = {"autocast": autocast, "checkpointing": checkpointing, "device": where}
    fake = FakeTraining(make_model, make_batch, make_optimizer, **settings)
    low, high, check = (fake.window(rows) for rows in PROBES)
    lines = _Lines(low, high)
    proved = lines.agree_with(check)
    return Forecast(
        make=(make_model, make_batch, make_optimizer),
        settings=settings,
        optimizer=type(fake.optimizer).__name__,
        weights=sum(p.numel() for p in fake.model.parameters()),
        notes=coverage.notes(fake, make_batch(PROBES[0]), proved),
        _fake=fake,
        _lines=lines if proved else None,
    )


@dataclass
class Forecast:
    """Peak bytes of training for any micro-batch and number of accumulation steps.

    `notes` says what the figures cover and what not; `weights` is the number of the
    model's weights; `overhead` the bytes that `calibrated` found beside the tensors.
    """

    make: tuple[MakeModel | nn.Module, MakeBatch, MakeOptimizer]
    settings: dict
    optimizer: str
    weights: int
    notes: list[str]
    _fake: FakeTraining
    _lines: _Lines | None
    overhead: int = 0
    _runs: dict[int, Window] = field(default_factory=dict)

    def peak(
        self, micro_batch: int, accumulation_steps: int = 1, last: int | None = None
    ) -> int:
        """Most bytes alive at once while training with micro-batches of that many rows.

        Args:
            micro_batch: rows.
            accumulation_steps: micro-batches in a window.
            last: rows of the last micro-batch of a window, where it has fewer.

        Raises:
            ValueError: not whole numbers of at least 1, or a last one that is larger.
        """
        return sum(self.at_peak(micro_batch, accumulation_steps, last).values())

    def at_peak(
        self, micro_batch: int, accumulation_steps: int = 1, last: int | None = None
    ) -> dict[str, int]:
        """The bytes at the peak by kind, as in `Meter.at_peak`; then any overhead."""
        rows = _whole("micro_batch", micro_batch)
        steps = _whole("accumulation_steps", accumulation_steps)
        tail = rows if last is None else _whole("last", last)
        if tail > rows:
            raise ValueError(
                f"last is {tail}, more than the {rows} rows of the other "
                "micro-batches; give it as many or fewer."
            )
        split = self._highest(rows, steps, tail if steps > 1 else rows)
        found = dict(zip(KINDS, split.tolist(), strict=True))
        return found | ({"overhead": self.overhead} if self.overhead else {})

    @property
    def floor(self) -> int:
        """Bytes that are left however small the micro-batch: no accumulation helps."""
        return (
            int(self._highest(*((0, 2, 0) if self._lines else (1, 2, 1))).sum())
            + self.overhead
        )

    def calibrated(self, rows: int = PROBES[0]) -> Forecast:
        """The forecast, corrected by one small real update on the device.

        On CUDA the difference is what tensors do not show: the libraries' workspaces
        and the allocator's rounding, and it is added to every peak. The real model is
        built for it, so the device must hold it.
        """
        from helpers.memory.real import measured

        peak = measured(self.make, self.settings, rows)
        difference = peak - (self.peak(rows, 2) - self.overhead)
        note = (
            f"Calibrated by a real update with 2 micro-batches of {rows} rows: it took "
            f"{readable(peak)}, {readable(abs(difference))} "
            f"{'less' if difference < 0 else 'more'} than the tensors foretold."
        )
        return replace(self, overhead=max(difference, 0), notes=[*self.notes, note])

    def _highest(self, rows: int, steps: int, last: int) -> numpy.ndarray:
        window, tail = self._window(rows), self._window(last)
        first, later, update = window.parts
        # In the fake run lie two micro-batches of equal size: before the first one the
        # labels of both are looked at, and from its own turn on each lies there whole.
        before = (steps - 1) * window.batch  # of all but the last
        labels = (steps - 1) * window.labels + tail.labels
        moments = [
            (first, labels - 2 * window.labels),
            (update, before + tail.batch - 2 * window.batch),
        ]
        if steps > 1:
            moments.append((tail.parts[1], before - tail.batch))
        if steps > 2:
            moments.append((later, before - 2 * window.batch + tail.labels))
        found = []
        for part, more in moments:
            split = part[part.sum(axis=1).argmax()].copy()
            split[ACTIVATIONS] += more
            found.append(split)
        return max(found, key=lambda split: split.sum())

    def _window(self, rows: int) -> Window:
        if self._lines and rows != 1:  # a single row may take operations of its own
            return self._lines.at(rows)
        if rows not in self._runs:
            self._runs[rows] = self._fake.window(rows)
        return self._runs[rows]

    def __str__(self) -> str:
        return coverage.text(self)

    __repr__ = __str__

    def __deepcopy__(self, memo: dict) -> Forecast:
        return copy.copy(self)  # nothing in it changes


class _Lines:
    """Live bytes after each operation as lines in the rows of a micro-batch."""

    def __init__(self, low: Window, high: Window) -> None:
        self._low, self._high = low, high
        self._same = _lengths(low) == _lengths(high)

    def at(self, rows: int) -> Window:
        """The window with micro-batches of so many rows."""
        steps, run = rows - PROBES[0], PROBES[1] - PROBES[0]

        def line(low, high):
            return low + (high - low) // run * steps

        low, high = self._low, self._high
        parts = [line(*pair) for pair in zip(low.parts, high.parts, strict=True)]
        return Window(parts, line(low.batch, high.batch), line(low.labels, high.labels))

    def agree_with(self, run: Window) -> bool:
        """Whether a third run lies on the lines, operation by operation."""
        if not self._same or _lengths(run) != _lengths(self._low):
            return False
        pairs = zip(self.at(PROBES[2]).parts, run.parts, strict=True)
        return all(numpy.array_equal(a.sum(1), b.sum(1)) for a, b in pairs)


def _lengths(window: Window) -> list[int]:
    return [len(part) for part in window.parts]


def _whole(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}; it must be a whole number from 1 on.")
    return value
