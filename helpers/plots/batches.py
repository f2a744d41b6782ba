"""Diagrams of a window: how rows are cut, how one update is made, why it fits."""

from __future__ import annotations

from helpers.plots import style
from helpers.plots.figure import check_words, drawing
from helpers.plots.inputs import whole_number
from helpers.plots.shapes import arrow, blank, block, write

_MOST_WINDOWS = 6  # more of them are left out in the middle
_MOST_STEPS = 8


def cut_into_micro_batches(
    rows: int,
    micro_batch: int,
    accumulation_steps: int,
    *,
    alt: str = "",
    caption: str = "",
) -> None:
    """Rows cut into windows, one a line, and windows into micro-batches, true to size.

    A window is `accumulation_steps` micro-batches of `micro_batch` rows; the last
    micro-batch and the last window may be shorter. Raises ValueError unless all three
    are whole numbers from 1 on.
    """
    check_words(alt, caption)
    rows = whole_number(rows, "rows")
    micro_batch = whole_number(micro_batch, "micro_batch")
    steps = whole_number(accumulation_steps, "accumulation_steps", most=32)
    window = micro_batch * steps
    sizes = [min(window, rows - start) for start in range(0, rows, window)]
    shown: list[int | None] = list(range(len(sizes)))
    if len(sizes) > _MOST_WINDOWS:
        shown = [0, 1, 2, None, len(sizes) - 1]
    high = 100 + 46 * len(shown)
    with drawing(alt, caption, height=high / 100) as fig:
        axes = blank(fig, 700, high)
        scale = 430 / min(window, rows)
        write(
            axes, 8, high - 18, f"{rows} rows, micro-batches of {micro_batch}, "
            f"{steps} to a window", bold=True, align="left",
        )  # fmt: skip
        write(axes, 8, high - 46, "window", size=9, align="left", colour=style.MUTED)
        write(axes, 505, high - 46, "rows", size=9, align="left", colour=style.MUTED)
        for line, index in enumerate(shown):
            y = high - 92 - 46 * line
            if index is None:
                left_out = len(sizes) - len(shown) + 1
                write(axes, 60, y + 15, f"⋮   {left_out} more windows like these",
                      align="left", colour=style.MUTED)  # fmt: skip
                continue
            _window(axes, y, index, sizes[index], micro_batch, scale)
            short = sizes[index] < window
            counted = -(-sizes[index] // micro_batch)
            write(
                axes, 505, y + 15,
                f"{sizes[index]} in {counted}" + (" (short)" if short else ""),
                align="left", bold=short,
                colour=style.VERMILLION if short else style.INK,
            )  # fmt: skip
            arrow(axes, (600, y + 15), (622, y + 15))
            write(axes, 630, y + 15, f"update {index + 1}", size=9, align="left")


def _window(
    axes, y: float, index: int, size: int, micro_batch: int, scale: float
) -> None:
    write(axes, 30, y + 15, str(index + 1), bold=True)
    for number, start in enumerate(range(0, size, micro_batch)):
        count = min(micro_batch, size - start)
        block(
            axes, 60 + start * scale + 1.5, y, count * scale - 3, 30,
            style.PALE_BLUE if number % 2 == 0 else style.PALE_ORANGE,
            edge=style.BLUE if number % 2 == 0 else "#B37A00",
        )  # fmt: skip
        if count * scale > 22:
            write(axes, 60 + (start + count / 2) * scale, y + 15, str(count), size=9)


def one_update(
    accumulation_steps: int = 4, *, alt: str = "", caption: str = ""
) -> None:
    """One window on a time axis: forwards and backwards add up, then one update.

    Raises ValueError unless `accumulation_steps` is a whole number from 1 to 8.
    """
    check_words(alt, caption)
    steps = whole_number(accumulation_steps, "accumulation_steps", 1, _MOST_STEPS)
    with drawing(alt, caption, height=3.5) as fig:
        axes = blank(fig, 700, 350)
        left, right = 96, 500
        pitch = (right - left) / steps
        for y, name in ((305, "forward"), (250, "backward"), (150, ".grad")):
            write(axes, 8, y, name, align="left", bold=True)
        for index in range(steps):
            x = left + pitch * index
            half = min(pitch / 2, 60) - 2
            block(axes, x, 288, half, 34, style.PALE_BLUE, edge=style.BLUE)
            block(axes, x + half + 2, 233, half, 34, style.PALE_ORANGE, edge="#B37A00")
            write(axes, x + half / 2, 305, str(index + 1), bold=True)
            write(axes, x + half * 1.5 + 2, 250, str(index + 1), bold=True)
            arrow(axes, (x + half * 1.5 + 2, 231), (x + half * 1.5 + 2, 202))
            _level(axes, x + half + 2, half, index + 1, steps)
        write(axes, left, 340, "micro-batch", size=9, align="left", colour=style.MUTED)
        _update(axes, steps)
        arrow(axes, (left, 40), (692, 40))
        write(axes, left, 20, "time", size=9, align="left", colour=style.MUTED)
        axes.plot([right + 4, right + 4], [34, 330], ":", color=style.MUTED)


def _level(axes, x: float, width: float, filled: int, steps: int) -> None:
    """The stack in .grad after `filled` backwards."""
    block(axes, x, 100, width, 100, style.WASH, edge=style.FAINT)
    for layer in range(filled):
        height = 96 / steps
        block(axes, x + 2, 102 + layer * height, width - 4, height - 2, style.ORANGE)
    write(axes, x + width / 2, 84, f"{filled}/{steps}", size=9)


def _update(axes, steps: int) -> None:
    write(axes, 602, 340, "one update", size=9, colour=style.MUTED)
    calls = ("optimizer.step()", "scheduler.step()", "zero_grad()")
    for row, call in enumerate(calls):
        y = 288 - 55 * row
        block(axes, 520, y, 164, 34, style.PALE_GREEN, edge=style.GREEN)
        write(axes, 602, y + 17, call, size=10)
        if row:
            arrow(axes, (602, y + 54), (602, y + 36))
    arrow(axes, (602, 176), (602, 152))
    block(axes, 572, 100, 60, 50, style.WASH, edge=style.FAINT)
    write(axes, 602, 125, "empty", size=9, colour=style.MUTED)
    write(axes, 602, 84, f"0/{steps}", size=9)


def fails_and_completes(*, alt: str = "", caption: str = "") -> None:
    """The large batch goes over the memory limit and fails; small ones complete."""
    check_words(alt, caption)
    with drawing(alt, caption, height=3.5) as fig:
        axes = blank(fig, 700, 350)
        axes.plot([70, 692], [60, 60], color=style.MUTED, linewidth=1)
        write(axes, 8, 80, "model and\noptimizer", size=9, align="left")
        write(axes, 8, 135, "activations", size=9, align="left")
        _held(axes, 100, 120, 200, style.VERMILLION)
        write(axes, 160, 200, "16 rows\nat once", bold=True)
        write(axes, 160, 322, "✗ fails: out of memory", bold=True, colour="#B34700")
        write(axes, 160, 38, "large batch", bold=True)
        for index in range(4):
            x = 300 + 70 * index
            _held(axes, x, 54, 50, style.BLUE)
            write(axes, x + 27, 125, "4 rows", size=9, bold=True)
            write(axes, x + 27, 165, "✓", size=14, bold=True, colour="#00734F")
            if index:
                arrow(axes, (x - 15, 125), (x - 1, 125))
        arrow(axes, (566, 125), (588, 125))
        block(axes, 592, 102, 92, 46, style.PALE_GREEN, edge=style.GREEN)
        write(axes, 638, 125, "one update\nfrom 16 rows", size=9)
        write(axes, 427, 322, "✓ completes", bold=True, colour="#00734F")
        write(axes, 427, 38, "micro-batches, one after another", bold=True)
        axes.plot([70, 692], [225, 225], "--", color=style.INK, linewidth=1.6)
        write(axes, 692, 236, "memory limit", size=9.5, bold=True, align="right")


def _held(axes, x: float, width: float, activations: float, colour: str) -> None:
    """A column of memory: the fixed part, and the activations on it."""
    pale = style.PALE_RED if colour == style.VERMILLION else style.PALE_BLUE
    block(axes, x, 62, width, 36, "#DDE1E5", edge=style.MUTED)
    block(axes, x, 100, width, activations, pale, edge=colour, line=1.6)
