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
    lines: list[int | str] = list(range(len(sizes)))
    if len(sizes) > _MOST_WINDOWS:
        lines = [
            0,
            1,
            2,
            f"⋮   {len(sizes) - 4} more windows like these",
            len(sizes) - 1,
        ]
    high = 70 + 44 * (len(lines) + (len(sizes) == 1))
    with drawing(alt, caption, height=high / 100) as fig:
        axes = blank(fig, 700, high)
        title = f"{rows} rows, micro-batches of {micro_batch}, {steps} to a window"
        write(axes, 8, high - 18, title, bold=True, align="left")
        y = high - 88
        scale = 380 / min(window, rows)
        if len(sizes) == 1:  # one window is itself the large batch that is cut
            write(axes, 8, y + 15, "large\nbatch", size=9, align="left")
            block(axes, 61.5, y, 377, 30, "#DDE1E5", edge=style.MUTED)
            write(axes, 250, y + 15, str(rows), size=9)
            y -= 44
        else:
            write(
                axes, 8, high - 42, "window", size=9, align="left", colour=style.MUTED
            )
        for line in lines:
            if isinstance(line, str):
                write(axes, 62, y + 15, line, align="left", colour=style.MUTED)
            else:
                _window(axes, y, line, sizes[line], micro_batch, scale)
                _result(axes, y, line, sizes[line], short=sizes[line] < window)
            y -= 44


def _window(
    axes, y: float, index: int, size: int, micro_batch: int, scale: float
) -> None:
    write(axes, 30, y + 15, str(index + 1), bold=True)
    for number, start in enumerate(range(0, size, micro_batch)):
        count = min(micro_batch, size - start)
        width = count * scale
        inset = min(1.5, width / 4)
        even = number % 2 == 0
        block(
            axes, 60 + start * scale + inset, y, width - 2 * inset, 30,
            style.PALE_BLUE if even else style.PALE_ORANGE,
            edge=style.BLUE if even else "#B37A00",
        )  # fmt: skip
        if width > 9 * len(str(count)) + 4:
            write(axes, 60 + start * scale + width / 2, y + 15, str(count), size=9)


def _result(axes, y: float, index: int, size: int, short: bool) -> None:
    text = f"{size} row{'s' * (size > 1)}" + (" (short)" if short else "")
    ink = "#B34700" if short else style.INK
    write(axes, 454, y + 15, text, align="left", bold=short, colour=ink)
    arrow(axes, (590, y + 15), (612, y + 15))
    write(axes, 622, y + 15, f"update {index + 1}", size=9.5, align="left")


def one_update(
    accumulation_steps: int = 4, *, alt: str = "", caption: str = ""
) -> None:
    """One window on a time axis: forwards and backwards add up, then one update.

    Raises ValueError unless `accumulation_steps` is a whole number from 1 to 8.
    """
    check_words(alt, caption)
    steps = whole_number(accumulation_steps, "accumulation_steps", 1, _MOST_STEPS)
    with drawing(alt, caption, height=3.3) as fig:
        axes = blank(fig, 700, 330)
        left, right = 92, 500
        pitch = (right - left) / steps
        half = min(pitch / 2, 70) - 2
        for y, name in ((281, "forward"), (226, "backward"), (128, ".grad")):
            write(axes, 8, y, name, align="left", bold=True)
        write(axes, left, 317, "micro-batch", size=9.5, align="left")
        for index in range(steps):
            x = left + pitch * index
            later = x + half + 2
            block(axes, x, 264, half, 34, style.PALE_BLUE, edge=style.BLUE)
            block(axes, later, 209, half, 34, style.PALE_ORANGE, edge="#B37A00")
            write(axes, x + half / 2, 281, str(index + 1), bold=True)
            write(axes, later + half / 2, 226, str(index + 1), bold=True)
            arrow(axes, (later + half / 2, 207), (later + half / 2, 180))
            _level(axes, later, half, index + 1, steps)
        axes.plot([right + 6, right + 6], [44, 322], ":", color=style.MUTED)
        _update(axes, steps)
        arrow(axes, (left, 32), (694, 32))
        write(axes, left, 15, "time", size=9.5, align="left")


def _level(axes, x: float, width: float, filled: int, steps: int) -> None:
    """The stack in .grad after `filled` backwards."""
    block(axes, x, 78, width, 100, style.WASH, edge=style.FAINT)
    height = 96 / steps
    for layer in range(filled):
        block(axes, x + 2, 80 + layer * height, width - 4, height - 2, style.ORANGE)
    write(axes, x + width / 2, 62, f"{filled}/{steps}", size=9.5)


def _update(axes, steps: int) -> None:
    write(axes, 520, 317, "then one update", size=9.5, align="left")
    calls = ("optimizer.step()", "scheduler.step()", "zero_grad()")
    for row, call in enumerate(calls):
        y = 264 - 55 * row
        block(axes, 520, y, 170, 34, style.PALE_GREEN, edge=style.GREEN)
        write(axes, 605, y + 17, call, size=10)
        if row:
            arrow(axes, (605, y + 54), (605, y + 36))
    arrow(axes, (605, 152), (605, 130))
    block(axes, 572, 78, 66, 50, style.WASH, edge=style.FAINT)
    write(axes, 605, 103, "empty", size=9.5, colour=style.MUTED)
    write(axes, 605, 62, f"0/{steps}", size=9.5)


def fails_and_completes(*, alt: str = "", caption: str = "") -> None:
    """The large batch goes over the memory limit and fails; small ones complete."""
    check_words(alt, caption)
    with drawing(alt, caption, height=3.5) as fig:
        axes = blank(fig, 700, 350)
        axes.plot([70, 692], [60, 60], color=style.MUTED, linewidth=1)
        write(axes, 8, 80, "model and\noptimizer", size=9, align="left")
        write(axes, 8, 135, "activations", size=9, align="left")
        _held(axes, 100, 120, 200, style.VERMILION)
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
    pale = style.PALE_RED if colour == style.VERMILION else style.PALE_BLUE
    block(axes, x, 62, width, 36, "#DDE1E5", edge=style.MUTED)
    block(axes, x, 100, width, activations, pale, edge=colour, line=1.6)
