"""Charts of training runs: curves that carry their names, and a whole history."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helpers.plots import style
from helpers.plots.figure import check_words, drawing
from helpers.plots.inputs import named, numbers, same_length
from helpers.plots.labels import at_line_ends
from helpers.plots.labels import doubling as doubling_axis
from helpers.plots.style import MiB

if TYPE_CHECKING:
    from helpers.training import History

_MOST_MARKERS = 12  # more of them on one line only blur it
Line = tuple[str, list[float], list[float]]  # name, xs, ys


def curves(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    xlabel: str,
    ylabel: str,
    doubling: bool = False,
    alt: str = "",
    caption: str = "",
) -> None:
    """Lines with a marker each and their name at the right end.

    `series` is {name: (xs, ys)}, at most six. With `doubling` the x axis is
    logarithmic, a tick at each power of two. Raises ValueError for anything else, or an
    x that is not above 0 there.
    """
    check_words(alt, caption)
    lines = [_line(name, xy) for name, xy in named(series, "series", most=6).items()]
    every = [x for _, xs, _ in lines for x in xs]
    if doubling:
        numbers(every, "xs", least=0, above=True)
    with drawing(alt, caption, height=3.6) as fig:
        axes = fig.subplots()
        _draw(axes, lines)
        if doubling:
            doubling_axis(axes, every)
        elif all(x == int(x) for x in every):
            axes.locator_params(axis="x", integer=True)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        _name(fig, axes, lines)


def history(history: History, *, alt: str = "", caption: str = "") -> None:
    """The panels of a training run, over its updates.

    Loss (of each update, and on the validation rows where they were evaluated),
    accuracy and F1, learning rate, gradient norm, and peak memory in MiB: those that
    the history holds. Raises ValueError where there was no update.
    """
    check_words(alt, caption)
    updates = history.updates
    if not updates:
        raise ValueError("This history holds no update, so there is nothing to draw.")
    rows = [row for row in (_scores(history), _settings(history)) if row]
    with drawing(alt, caption, height=2.4 * len(rows)) as fig:
        areas = fig.subfigures(len(rows), squeeze=False)[:, 0]
        for area, row in zip(areas, rows, strict=True):
            panels = area.subplots(1, len(row), squeeze=False)[0]
            for axes, (title, lines) in zip(panels, row.items(), strict=True):
                axes.set_title(title)
                _draw(axes, lines, markers=len(lines) > 1 or len(updates) == 1)
                axes.set_xlabel("update")
                axes.yaxis.set_major_formatter("{x:g}")
                axes.locator_params(axis="x", integer=True, nbins=5)
                if len(updates) == 1:
                    axes.set_xticks([1])
                axes.set_xlim(0.5 - len(updates) / 40, len(updates) * 1.025 + 0.5)
                if len(lines) > 1:
                    _name(fig, axes, lines)


def _scores(history: History) -> dict[str, list[Line]]:
    """The panels that say how well the model does."""
    losses = _of_updates("each update", history, "loss")
    accuracy = _evaluated("accuracy", history, "accuracy")
    panels = {
        "Loss": losses + _evaluated("validation", history, "loss"),
        "Accuracy and F1": accuracy + _evaluated("F1", history, "f1"),
    }
    return {title: lines for title, lines in panels.items() if lines}


def _settings(history: History) -> dict[str, list[Line]]:
    """The panels that say how the run went."""
    panels = {
        "Learning rate": _of_updates("", history, "learning_rate"),
        "Gradient norm": _of_updates("", history, "gradient_norm"),
        "Peak memory (MiB)": _of_updates("", history, "peak_bytes", MiB),
    }
    return {title: lines for title, lines in panels.items() if lines}


def _of_updates(name: str, history: History, field: str, unit: float = 1) -> list[Line]:
    """One line of a field over the updates, or none where it was not measured."""
    values = [getattr(update, field) for update in history.updates]
    return _measured(name, range(1, len(values) + 1), values, unit)


def _evaluated(name: str, history: History, key: str) -> list[Line]:
    """One line of a figure over the evaluations, or none."""
    rows = history.evaluations
    return _measured(name, [r["update"] for r in rows], [r.get(key) for r in rows])


def _measured(
    name: str, xs: Sequence[int], ys: Sequence[float | None], unit: float = 1
) -> list[Line]:
    """The points that exist: an overflow (fp16 has them) or None leaves a gap."""
    pairs = [
        (float(x), float(y) / unit)
        for x, y in zip(xs, ys, strict=True)
        if y is not None and math.isfinite(y)
    ]
    return [(name, [x for x, _ in pairs], [y for _, y in pairs])] if pairs else []


def _line(name: str, xy: Any) -> Line:
    if not isinstance(xy, Sequence) or len(xy) != 2:
        raise ValueError(f"series[{name!r}] must be a pair of lists: (xs, ys).")
    xs = numbers(xy[0], f"xs of {name!r}")
    ys = numbers(xy[1], f"ys of {name!r}")
    same_length(xs=xs, ys=ys)
    return str(name), xs, ys


def _draw(axes, lines: Sequence[Line], markers: bool = True) -> None:
    for index, (_, xs, ys) in enumerate(lines):
        many = len(xs) > _MOST_MARKERS
        every = max(1, len(xs) // (_MOST_MARKERS // 2))
        axes.plot(
            xs, ys, color=style.COLOURS[index],
            marker=style.MARKERS[index] if markers else "",
            # Lines that run together show their markers in different places.
            markevery=(index * every // len(lines), every) if many else None,
            linewidth=1.4 if many else 2.0,
        )  # fmt: skip


def _name(fig, axes, lines: Sequence[Line]) -> None:
    ends = [
        (xs[-1], ys[-1], name, style.INKS[index])
        for index, (name, xs, ys) in enumerate(lines)
    ]
    at_line_ends(fig, axes, ends)
