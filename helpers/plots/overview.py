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
    "Unequal\nmicro-batches",
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
    with drawing(alt, caption, height=3.5) as fig:
        axes = blank(fig, 700, 350)
        for index, topic in enumerate(_TOPICS):
            ours = topic == "Efficient training"
            block(
                axes,
                8 + 173 * index,
                306,
                157,
                34,
                style.BLUE if ours else style.WASH,
            )
            write(
                axes,
                86 + 173 * index,
                323,
                topic,
                size=10,
                bold=ours,
                colour=style.CARD if ours else style.MUTED,
            )
            if index:
                arrow(axes, (8 + 173 * index - 15, 323), (173 * index + 7, 323))
        # The course opens out of its topic.
        axes.fill([354, 511, 692, 8], [303, 303, 272, 272], color=style.PALE_BLUE)
        block(axes, 8, 8, 684, 264, style.PALE_BLUE)
        write(axes, 24, 254, "The course", bold=True, align="left")
        write(axes, 24, 129, "Going further", bold=True, align="left")
        for number, title in enumerate(LESSONS, start=1):
            _lesson(axes, number, title, number == current)
        # From the end of the first row to the start of the second.
        axes.plot(
            [617, 617, 91, 91], [162, 146, 146, 118], color=style.BLUE, linewidth=2
        )
        arrow(axes, (91, 122), (91, 112), style.BLUE, 2)


def _lesson(axes, number: int, title: str, here: bool) -> None:
    column, row = (number - 1) % 4, (number - 1) // 4
    x, y = 24 + 168 * column, 162 - 132 * row
    if column:
        arrow(axes, (x - 33, y + 39), (x - 2, y + 39), style.BLUE, 2)
    block(
        axes,
        x,
        y,
        134,
        78,
        style.BLUE if here else style.CARD,
        edge=style.BLUE,
        line=2,
    )
    ink = style.CARD if here else style.INK
    write(axes, x + 22, y + 39, str(number), size=17, bold=True, colour=ink)
    write(axes, x + 42, y + 39, title, size=9.5, colour=ink, align="left", bold=here)
    if here:
        write(
            axes,
            x + 134,
            y + 90,
            "▼ you are here",
            size=9.5,
            bold=True,
            colour="#004A75",
            align="right",
        )


def three_efficiencies(*, alt: str = "", caption: str = "") -> None:
    """What accumulation does for memory, for communication and for computation."""
    check_words(alt, caption)
    with drawing(alt, caption, height=3.7) as fig:
        axes = blank(fig, 700, 370)
        columns = (
            ("Memory", _memory, "less", "fewer activations\nat once"),
            (
                "Communication",
                _communication,
                "less",
                "one synchronisation\nper window",
            ),
            (
                "Computation",
                _computation,
                "the same",
                "every row still goes\nforward and backward",
            ),
        )
        for index, (title, picture, verdict, reason) in enumerate(columns):
            x = 8 + 232 * index
            saves = verdict == "less"
            block(axes, x, 8, 220, 354, style.WASH)
            write(axes, x + 110, 340, title, size=12, bold=True)
            write(axes, x + 12, 310, "large batch", size=9, align="left")
            write(axes, x + 12, 205, "4 micro-batches", size=9, align="left")
            picture(axes, x + 14)
            block(
                axes,
                x + 12,
                18,
                196,
                82,
                style.PALE_GREEN if saves else style.PALE_ORANGE,
            )
            write(
                axes,
                x + 110,
                82,
                ("▼ " if saves else "= ") + verdict,
                size=11.5,
                bold=True,
            )
            write(axes, x + 110, 47, reason, size=9.5)


def _memory(axes, x: float) -> None:
    block(axes, x, 220, 46, 76, style.BLUE)
    write(axes, x + 56, 258, "all activations\nin memory", size=9, align="left")
    for index in range(4):
        block(axes, x + 50 * index, 115, 40, 19, style.BLUE)
        block(axes, x + 50 * index, 115, 40, 76, None, edge="#B8BEC5", dashed=True)


def _communication(axes, x: float) -> None:
    write(axes, x, 268, "one synchronisation", size=9, align="left")
    block(axes, x, 226, 170, 24, style.BLUE)
    _sync(axes, x + 183, 238)
    for index in range(4):
        block(axes, x + 43 * index, 150, 39, 24, style.BLUE)
    _sync(axes, x + 183, 162)
    write(axes, x, 128, "not one for each of the four", size=9, align="left")


def _sync(axes, x: float, y: float) -> None:
    axes.plot(x, y, "D", color=style.VERMILLION, markersize=9)
    axes.plot([x, x], [y - 17, y + 17], color=style.VERMILLION, linewidth=1.5)


def _computation(axes, x: float) -> None:
    for row in range(4):
        block(axes, x, 227 + 17 * row, 130, 14, style.BLUE)
    write(axes, x + 140, 260, "4 × work", size=9, align="left")
    for row in range(4):
        block(axes, x, 119 + 19 * row, 130, 14, style.BLUE)
    write(axes, x + 140, 155, "4 × work", size=9, align="left")
