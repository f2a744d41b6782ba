"""The figures of a lesson's style and their limits."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from authoring import prose
from authoring.source import Lesson

# (what, limit): lengths of cells in lines that are not blank, of sentences in words.
LIMITS = {
    "cell median": 5,
    "cell 90 %": 12,
    "cell longest": 25,
    "line longest": 88,
    "sentence median": 14,
    "sentence 90 %": 24,
}


@dataclass(frozen=True)
class Figures:
    """What was measured in one lesson; `values` has the keys of LIMITS."""

    stem: str
    cells: int
    sentences: int
    values: dict[str, float]

    def problems(self) -> list[str]:
        """A sentence for each figure over its limit."""
        return [
            f"{name} is {self.values[name]:g}, at most {limit} is wanted"
            for name, limit in LIMITS.items()
            if self.values[name] > limit
        ]


def measure(lesson: Lesson) -> Figures:
    """Measure the solved lesson, which is the longer one; the set-up cell is not ours.

    Headings and table rows are no sentences.
    """
    code = [
        [line for line in cell.solved.splitlines() if line.strip()]
        for cell in lesson.cells
        if cell.kind == "code" and "setup" not in cell.tags
    ]
    cells = [len(lines) for lines in code]
    lengths = [
        prose.words(sentence)
        for cell in lesson.cells
        if cell.kind == "markdown"
        for block in prose.blocks(cell.solved)
        if not block.level and not block.row
        for sentence in prose.sentences(block)
    ]
    values = {
        "cell median": statistics.median(cells or [0]),
        "cell 90 %": _ninety(cells),
        "cell longest": max(cells, default=0),
        "line longest": max((len(line) for lines in code for line in lines), default=0),
        "sentence median": statistics.median(lengths or [0]),
        "sentence 90 %": _ninety(lengths),
    }
    return Figures(lesson.stem, len(cells), len(lengths), values)


def _ninety(values: list[int]) -> int:
    """The smallest value that at least 90 % of `values` do not pass."""
    return sorted(values)[math.ceil(0.9 * len(values)) - 1] if values else 0
