"""Diagrams of the whole: where the course stands, and what accumulation is good for."""

from __future__ import annotations

from helpers.plots import style
from helpers.plots.figure import check_words, drawing
from helpers.plots.inputs import whole_number
from helpers.plots.shapes import arrow, blank, block, write

LESSONS = (
    "The memory\nlimit",
    "Accumulate\nby hand",
    "Accelerator",
    "Trainer",
    "Unequal\nmicro-\nbatches",
    "Several\nprocesses",
    "Below\nthe floor",
    "Capstone",
)
_TOPICS = (
    "Data preparation",
    "Distributed training",
    "Efficient training",
    "Optimizers",
)


def course_map(current: int = 1, *, alt: str = "", caption: str = "") -> None:
    """The eight lessons as a path, `current` (1 to 8) marked, among their neighbours.

    Raises ValueError for another `current`.
    """
    check_words(alt, caption)
    current = whole_number(current, "current", 1, len(LESSONS))
    with drawing(alt, caption, height=3.6) as fig:
        axes = blank(fig, 700, 360)
        for index, topic in enumerate(_TOPICS):
            _topic(axes, 4 + 175.5 * index, topic, topic == "Efficient training")
        # The course opens out of its topic.
        axes.fill([357, 520, 694, 6], [318, 318, 288, 288], color=style.PALE_BLUE)
        block(axes, 4, 6, 692, 284, style.PALE_BLUE)
        write(axes, 22, 274, "The course", bold=True, align="left")
        write(axes, 22, 135, "Going further", bold=True, align="left")
        for number, title in enumerate(LESSONS, start=1):
            _lesson(axes, number, title, number == current)
        # From the end of the first row to the start of the second.
        axes.plot(
            [610, 610, 142, 142], [177, 154, 154, 110], color=style.BLUE, linewidth=2
        )
        arrow(axes, (142, 116), (142, 104), style.BLUE, 2)


def _topic(axes, x: float, name: str, ours: bool) -> None:
    block(axes, x, 318, 165, 34, style.BLUE if ours else style.WASH)
    ink = style.CARD if ours else style.MUTED
    write(axes, x + 82, 335, name, size=10, bold=ours, colour=ink)


def _lesson(axes, number: int, title: str, here: bool) -> None:
    column, row = (number - 1) % 4, (number - 1) // 4
    x, y = 22 + 171 * column, 177 - 155 * row
    if column:
        arrow(axes, (x - 28, y + 40), (x - 2, y + 40), style.BLUE, 2)
    fill = style.BLUE if here else style.CARD
    block(axes, x, y, 142, 80, fill, edge=style.BLUE, line=2)
    ink = style.CARD if here else style.INK
    middle = y + (52 if here else 40)
    write(axes, x + 21, middle, str(number), size=17, bold=True, colour=ink)
    write(axes, x + 40, middle, title, size=9.5, colour=ink, align="left", bold=here)
    if here:
        # Words, because colour alone would not say it.
        block(axes, x + 6, y + 6, 130, 20, style.CARD)
        write(axes, x + 71, y + 16, "you are here", size=9, bold=True)


def three_efficiencies(*, alt: str = "", caption: str = "") -> None:
    """What accumulation does for memory, for communication and for computation."""
    check_words(alt, caption)
    less, same = ("▼ less", style.PALE_GREEN), ("= the same", style.PALE_ORANGE)
    with drawing(alt, caption, height=3.7) as fig:
        axes = blank(fig, 700, 370)
        _column(axes, 4, "Memory", less, "fewer activations\nat once")
        _memory(axes, 18)
        _column(axes, 238, "Communication", less, "one synchronisation\nper window")
        _communication(axes, 252)
        _column(axes, 472, "Computation", same, "every row still goes\nboth ways")
        _computation(axes, 486)


def _column(axes, x: float, title: str, verdict: tuple[str, str], why: str) -> None:
    block(axes, x, 6, 224, 358, style.WASH)
    write(axes, x + 112, 341, title, size=12, bold=True)
    block(axes, x + 12, 16, 200, 84, verdict[1])
    write(axes, x + 112, 81, verdict[0], size=11.5, bold=True)
    write(axes, x + 112, 46, why, size=9.5)


def _say(axes, x: float, y: float, text: str) -> None:
    write(axes, x, y, text, size=9.5, align="left")


def _memory(axes, x: float) -> None:
    _say(axes, x, 311, "one large batch")
    block(axes, x, 222, 46, 76, style.BLUE)
    _say(axes, x + 58, 260, "all activations\nin memory")
    _say(axes, x, 205, "4 micro-batches")
    for index in range(4):
        block(axes, x + 51 * index, 116, 44, 19, style.BLUE)
        block(axes, x + 51 * index, 116, 44, 76, None, edge="#9AA1A9", dashed=True)


def _communication(axes, x: float) -> None:
    for y, name, every in (
        (311, "4 updates", True),
        (205, "4 micro-batches, 1 update", False),
    ):
        _say(axes, x, y, name)
        for index in range(4):
            block(axes, x + 50 * index, y - 59, 28, 36, style.BLUE)
            if every or index == 3:
                axes.plot(
                    x + 39 + 50 * index, y - 41, "D", color=style.VERMILION,
                    markersize=9,
                )  # fmt: skip
    axes.plot(x + 6, 124, "D", color=style.VERMILION, markersize=7)
    _say(axes, x + 18, 124, "synchronisation")


def _computation(axes, x: float) -> None:
    _say(axes, x, 311, "one large batch, 16 rows")
    _say(axes, x, 205, "4 micro-batches, 16 rows")
    for row in range(16):
        block(axes, x + 12.2 * row, 245, 10, 46, style.BLUE)
        gap = 5 * (row // 4)
        block(axes, x + 11.2 * row + gap, 139, 9, 46, style.BLUE)
