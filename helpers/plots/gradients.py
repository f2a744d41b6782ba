"""Charts of measured gradients: how they spread, add up, and miss the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from helpers.plots import style
from helpers.plots.figure import check_words, drawing
from helpers.plots.inputs import named, numbers, same_length
from helpers.plots.labels import note, short

if TYPE_CHECKING:
    from torch import Tensor


def gradient_spread(
    batch_sizes: Sequence[int],
    spread: Sequence[float],
    *,
    alt: str = "",
    caption: str = "",
) -> None:
    """Points of the spread against the batch size, and the line 1/B, both axes log.

    `spread` is the mean squared distance between the gradient of a batch and the
    gradient of all rows. The line starts at the first point: independent rows give a
    spread of (spread of one row) / B. Raises ValueError for bad lists.
    """
    check_words(alt, caption)
    rows = numbers(batch_sizes, "batch_sizes", least=1)
    values = numbers(spread, "spread", least=0, above=True)
    same_length(batch_sizes=rows, spread=values)
    with drawing(alt, caption, height=3.7) as fig:
        axes = fig.subplots()
        law = [values[0] * rows[0] / x for x in rows]
        axes.plot(rows, law, "--", color=style.MUTED, linewidth=1.5)
        axes.plot(rows, values, "o", color=style.BLUE, markersize=8)
        for x, y in zip(rows, values, strict=True):
            axes.annotate(
                short(y), (x, y), xytext=(6, 5), textcoords="offset points",
                fontsize=style.SMALL,
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(rows, [f"{x:g}" for x in rows])
        axes.minorticks_off()
        axes.margins(x=0.1, y=0.14)
        axes.set_xlabel("rows in the batch, B")
        axes.set_ylabel("spread of the gradient\n(mean squared distance)")
        middle = len(rows) // 2
        axes.annotate(
            "proportional to 1/B", (rows[middle], law[middle]), xytext=(-14, -16),
            textcoords="offset points", ha="right", color=style.MUTED,
        )  # fmt: skip


def error_bars(
    errors: Mapping[str, float],
    *,
    rounding: float = 1e-12,
    start: float | None = None,
    alt: str = "",
    caption: str = "",
) -> None:
    """One dot for each named relative error, on a log axis, its number beside it.

    Errors below `rounding` are what float64 arithmetic leaves, and lie in the shaded
    part; pass 1e-5 where the gradients are float32. An error of 0 is drawn at the left
    edge, as is one below `start`, where the axis begins (far below `rounding` if left
    out). Raises ValueError for negative or infinite errors.
    """
    check_words(alt, caption)
    named(errors, "errors")
    values = numbers(errors.values(), "errors", least=0)
    (rounding,) = numbers([rounding], "rounding", least=0, above=True)
    positive = [value for value in values if value > 0]
    left = min([*positive, rounding * 1e-4]) / 30
    if start is not None:
        (left,) = numbers([start], "start", least=0, above=True)
    right = max([*positive, 1]) * 60  # up to 1: as wrong as no gradient at all
    with drawing(alt, caption, height=0.95 + 0.42 * len(values)) as fig:
        axes = fig.subplots()
        axes.axvspan(left, rounding, color=style.PALE_GREEN, linewidth=0)
        axes.text(
            left * 1.3, -0.62, "rounding", color="#00573C", va="center",
            fontsize=style.SMALL, fontweight="bold",
        )  # fmt: skip
        for row, value in enumerate(values):
            tiny = value < rounding
            colour = "#00734F" if tiny else style.VERMILION
            end = max(value, left)
            axes.plot([left, end], [row, row], color=colour, linewidth=1.5, alpha=0.5)
            axes.plot(end, row, "o" if tiny else "D", color=colour, clip_on=False)
            axes.annotate(
                short(value), (end, row), xytext=(9, 0), textcoords="offset points",
                va="center", fontweight="bold", color=colour if tiny else "#B34700",
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlim(left, right)
        axes.set_ylim(len(values) - 0.5, -0.95)
        axes.set_yticks(range(len(values)), [str(name) for name in errors])
        axes.tick_params(axis="y", length=0, pad=9, labelsize=10)
        axes.grid(axis="y", visible=False)
        axes.minorticks_off()
        axes.set_xlabel("relative error against the reference")


def window_ratios(
    ratios: Mapping[str, Sequence[float]], *, alt: str = "", caption: str = ""
) -> None:
    """The ratio of each window to its reference, one strip for each loop.

    `ratios` is {loop name: [ratio of window 1, window 2, ...]}; 1 is right. The last
    window is shaded. A loop with fewer entries than the longest made no update there,
    and the strip says so. Raises ValueError for values that are not finite.
    """
    check_words(alt, caption)
    named(ratios, "ratios", most=6)
    loops = {
        # An empty list is a loop that never made an update.
        name: numbers(values, f"ratios[{name!r}]") if len(values) else []
        for name, values in ratios.items()
    }
    windows = max(len(values) for values in loops.values())
    if not windows:
        raise ValueError("ratios holds no window at all; give at least one ratio.")
    every = [value for values in loops.values() for value in values] + [0, 1]
    room = 0.45 * (max(every) - min(every))
    height = 0.75 + 1.15 * len(loops)
    with drawing(alt, caption, height) as fig:
        panels = fig.subplots(len(loops), sharex=True, sharey=True, squeeze=False)
        for index, (name, values) in enumerate(loops.items()):
            axes = panels[index, 0]
            axes.set_title(str(name))
            _ratio_strip(axes, values, windows, index)
        last = panels[-1, 0]
        last.set_ylim(min(every) - room, max(every) + room)
        last.locator_params(axis="y", nbins=4, integer=max(every) > 2)
        last.set_xlim(0.5, windows + 0.5)
        last.set_xticks(range(1, windows + 1) if windows <= 16 else [1, windows])
        last.set_xlabel("window (the last one is shaded)" if windows > 1 else "window")
        panels[len(loops) // 2, 0].set_ylabel("ratio")


def _ratio_strip(axes, values: list[float], windows: int, index: int) -> None:
    if windows > 1:
        axes.axvspan(windows - 0.5, windows + 0.5, color=style.WASH, linewidth=0)
    axes.axhline(1, color=style.INK, linewidth=1.2)
    if not index:
        axes.annotate(
            "reference", (1, 1), xycoords=("axes fraction", "data"), xytext=(5, 0),
            textcoords="offset points", va="center", fontsize=style.SMALL,
        )  # fmt: skip
    places = range(1, len(values) + 1)
    axes.plot(
        places, values, style.MARKERS[index], color=style.COLOURS[index], linestyle=""
    )
    few = windows <= 12
    beside = {"xytext": (9, 0), "va": "center", "ha": "left"}
    above = {"xytext": (0, 6), "va": "bottom", "ha": "center"}
    for place, value in zip(places, values, strict=True):
        if abs(value - 1) > 0.005 and (few or place in (1, windows)):
            axes.annotate(
                short(round(value, 3)), (place, value), textcoords="offset points",
                fontsize=style.SMALL, **(beside if few else above),
            )  # fmt: skip
    for place in range(len(values) + 1, windows + 1):
        axes.plot(place, 0, "x", color=style.VERMILION, markeredgewidth=2)
        if few:
            note(axes, place, 0.12, "no update", ha="center", va="bottom")
        elif place == windows:  # too narrow for words: they go beside the sign
            note(axes, place - 0.7, 0, "no update", ha="right", va="center")
    axes.grid(axis="x", visible=False)


def gradients_add_up(
    parts: Sequence[Tensor], whole: Tensor, *, alt: str = "", caption: str = ""
) -> None:
    """Arrows of the micro-batches' gradients, head to tail, beside the whole gradient.

    `parts` holds one flat gradient for each micro-batch, already divided, and `whole`
    the flat reference, all of one length. A gradient has many directions; the picture
    keeps two: along `whole`, and the direction in which a part deviates most. It says
    how much of the deviations' length lies outside. Raises ValueError for bad shapes or
    a zero `whole`.
    """
    check_words(alt, caption)
    from helpers.plots.arrows import draw, in_plane

    steps, length, kept = in_plane(parts, whole)
    xs, ys = [0.0], [0.0]
    for x, y in steps:
        xs.append(xs[-1] + x)
        ys.append(ys[-1] + y)
    wide = max(*xs, length) - min(xs)
    high = max(ys) - min(ys)
    height = min(max(0.8 + 6.0 * high / wide, 1.6), 5.0)
    with drawing(alt, caption, height=height) as fig:
        draw(fig, list(zip(xs, ys, strict=True)), length, kept)
