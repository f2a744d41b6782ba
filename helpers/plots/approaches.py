"""The chart of ease against control: ways to train, each measured several times."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from helpers.plots import style
from helpers.plots.figure import check_words, drawing
from helpers.plots.inputs import named, numbers
from helpers.plots.labels import short


def ease_against_control(
    measures: Mapping[str, Mapping[str, float]],
    *,
    log: Collection[str] = (),
    alt: str = "",
    caption: str = "",
) -> None:
    """One panel for each measure, in it one dot for each way to train, with its number.

    `measures` is {what is measured: {way: value}}, the same ways in each, values of 0
    or more; those named in `log` get a log axis and must be above 0. Raises ValueError
    for anything else.
    """
    check_words(alt, caption)
    named(measures, "measures", most=6)
    ways: list[str] = []
    for title, values in measures.items():
        names = [str(way) for way in named(values, f"measures[{title!r}]", most=6)]
        ways = ways or names
        if names != ways:
            raise ValueError(
                f"measures[{title!r}] is about {names}, and the first about {ways}; "
                "give each measure the same ways in the same order."
            )
        numbers(values.values(), f"measures[{title!r}]", least=0, above=title in log)
    columns = min(2, len(measures))
    lines = -(-len(measures) // columns)
    with drawing(alt, caption, height=lines * (0.75 + 0.34 * len(ways))) as fig:
        panels = fig.subplots(lines, columns, squeeze=False).flatten()
        for place, (axes, (title, values)) in enumerate(
            zip(panels, measures.items(), strict=False)
        ):
            _panel(axes, [float(v) for v in values.values()], title in log)
            axes.set_title(str(title))
            shown = ways if place % columns == 0 else [""] * len(ways)
            axes.set_yticks(range(len(ways)), shown)
        for axes in panels[len(measures) :]:
            axes.set_visible(False)


def _panel(axes, values: list[float], log: bool) -> None:
    left = min(values) / 30 if log else 0.0
    for row, value in enumerate(values):
        colour, ink = style.COLOURS[row], style.INKS[row]
        axes.plot([left, value], [row, row], color=colour, linewidth=1.5, alpha=0.5)
        axes.plot(value, row, style.MARKERS[row], color=colour, clip_on=False)
        axes.annotate(
            short(value), (value, row), xytext=(9, 0), textcoords="offset points",
            va="center", fontweight="bold", color=ink,
        )  # fmt: skip
    if log:
        axes.set_xscale("log")
        axes.set_xlim(left, max(values) * (max(values) / left) ** 0.45)
    else:
        axes.set_xlim(0, (max(values) or 1) * 1.35)
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, pad=9, labelsize=10)
    axes.tick_params(axis="x", labelbottom=False, length=0)  # each dot has its number
    axes.grid(visible=False)
    axes.minorticks_off()
