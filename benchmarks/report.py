"""What a part of the benchmark found: its checks and its table."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median, quantiles
from typing import Any

import torch

SIGNS = {"≤": operator.le, "≥": operator.ge, "=": operator.eq}


@dataclass(frozen=True)
class Setting:
    """Where and how thoroughly to measure: `quick` is a sample that a test can run."""

    device: torch.device
    quick: bool = False

    @property
    def exact(self) -> bool:
        """Whether every byte is known: a GPU's allocator rounds and keeps."""
        return self.device.type == "cpu"


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of figures that belong together, such as paired ratios."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Spread:
        """Of at least one figure."""
        if len(figures) < 2:
            return cls(figures[0], figures[0], figures[0])
        low, _, high = quantiles(figures, n=4, method="inclusive")
        return cls(median(figures), low, high)


@dataclass(frozen=True)
class Check:
    """A figure, and what was promised of it where something was.

    Attributes:
        found: a number, or a `Spread`, of which the median is held to the promise.
        sign, limit: the promise, for example "≤", 0.005; None for a figure only.
        unit: of both.
    """

    what: str
    found: Any
    sign: str | None = None
    limit: float | None = None
    unit: str = ""

    @property
    def kept(self) -> bool:
        """Whether the promise holds; a figure without one always does."""
        if self.sign is None:
            return True
        value = self.found.median if isinstance(self.found, Spread) else self.found
        return bool(SIGNS[self.sign](value, self.limit))

    @property
    def wanted(self) -> str:
        """The promise in words, or nothing."""
        return f"{self.sign} {shown(self.limit)}{self.unit}" if self.sign else ""

    def __str__(self) -> str:
        wanted = f", wanted {self.wanted}" if self.sign else ""
        sign = " " if not self.sign else "✔" if self.kept else "✘"
        return f"{sign} {self.what}: {shown(self.found)}{self.unit}{wanted}"


@dataclass
class Part:
    """One part of the benchmark.

    Attributes:
        text: how it was measured, for the reader of the table.
        columns, rows: the table; numbers stay numbers until they are shown.
    """

    title: str
    text: str
    columns: Sequence[str]
    rows: list[list[Any]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Everything, for the file; `kept` and `wanted` too."""
        found = asdict(self)
        for entry, check in zip(found["checks"], self.checks, strict=True):
            entry |= {"kept": check.kept, "wanted": check.wanted}
        return found


def shown(value: Any) -> str:
    """A figure for a reader: three digits, a whole number, or a spread."""
    if isinstance(value, Spread):
        value = asdict(value)
    if isinstance(value, dict):
        return f"{value['median']:.3f} ({value['low']:.3f} to {value['high']:.3f})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "–"
    if isinstance(value, float):
        whole = value == 0 or abs(value) >= 100
        return f"{value:,.0f}" if whole else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table, numbers to the right."""
    first = rows[0] if rows else [""] * len(columns)
    rule = ["---" if isinstance(value, str) else "---:" for value in first]
    lines = [columns, rule, *([shown(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
