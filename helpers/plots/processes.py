"""Charts about several processes: what an update costs on many of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from helpers.plots import style
from helpers.plots.figure import check_words, drawing
from helpers.plots.inputs import named, numbers, same_length
from helpers.plots.labels import at_line_ends, short


def update_times(
    processes: Sequence[int],
    seconds: Mapping[str, Sequence[float]],
    *,
    compute: float,
    alt: str = "",
    caption: str = "",
) -> None:
    """Seconds of an update over the number of processes, a line for each way.

    `seconds` is {name: [seconds, ...]}, one for each of `processes`; at most four.
    `compute` is the time with no exchange at all, drawn as a floor. Processes are on a
    logarithmic axis. Raises ValueError for bad lists.
    """
    check_words(alt, caption)
    xs = numbers(processes, "processes", least=1)
    lines = {
        str(name): numbers(values, f"seconds of {name!r}", least=0)
        for name, values in named(seconds, "seconds", most=4).items()
    }
    for values in lines.values():
        same_length(processes=xs, seconds=values)
    (floor,) = numbers([compute], "compute", least=0)
    with drawing(alt, caption, height=3.8) as fig:
        axes = fig.subplots()
        dashes = {"color": style.INK, "linestyle": (0, (5, 3)), "linewidth": 1.4}
        axes.plot([xs[0], xs[-1]], [floor, floor], **dashes)
        for index, values in enumerate(lines.values()):
            axes.plot(
                xs, values, color=style.COLOURS[index], marker=style.MARKERS[index]
            )
        axes.set_xscale("log", base=2)
        ticks = xs if len(xs) <= 7 else xs[::2]
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axes.minorticks_off()
        highest = max([floor, *(y for values in lines.values() for y in values)])
        axes.set_ylim(0, highest * 1.08 or 1)
        axes.set_xlabel("processes, one on each GPU")
        axes.set_ylabel("seconds of one update")
        ends = [
            (xs[-1], values[-1], f"{name}\n{short(values[-1])} s", style.INKS[index])
            for index, (name, values) in enumerate(lines.items())
        ]
        ends.append((xs[-1], floor, f"computing alone\n{short(floor)} s", style.INK))
        at_line_ends(fig, axes, ends)
