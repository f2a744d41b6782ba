"""Charts of training runs: curves that carry their names, and a whole history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helpers.plots import style
from helpers.plots.figure import check_words, drawing
from helpers.plots.inputs import named, numbers, same_length
from helpers.plots.labels import at_line_ends
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
    alt: str = "",
    caption: str = "",
) -> None:
    """Lines with a marker each and their name at the right end.

    `series` is {name: (xs, ys)}, at most six. Raises ValueError for anything else.
    """
    check_words(alt, caption)
    lines = [_line(name, xy) for name, xy in named(series, "series", most=6).items()]
    with drawing(alt, caption, height=3.6) as fig:
        axes = fig.subplots()
        _draw(axes, lines)
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
    panels = _panels(history)
    names = list(panels)
    rows = [[name, name] for name in names[: len(names) % 2]]
    rest = names[len(names) % 2 :]
    rows += [rest[i : i + 2] for i in range(0, len(rest), 2)]
    with drawing(alt, caption, height=0.5 + 2.0 * len(rows)) as fig:
        axes = fig.subplot_mosaic(rows)
        for name, lines in panels.items():
            axes[name].set_title(name)
            _draw(axes[name], lines)
            axes[name].set_xlabel("update")
            axes[name].locator_params(axis="x", integer=True)
        for name, lines in panels.items():
            if len(lines) > 1:
                _name(fig, axes[name], lines)


def _panels(history: History) -> dict[str, list[Line]]:
    updates = history.updates
    if not updates:
        raise ValueError("This history holds no update, so there is nothing to draw.")
    panels: dict[str, list[Line]] = {
        "Loss": _of_updates("each update", updates, "loss"),
        "Accuracy and F1": [],
        "Learning rate": _of_updates("", updates, "learning_rate"),
        "Gradient norm": _of_updates("", updates, "gradient_norm"),
        "Peak memory (MiB)": _of_updates("", updates, "peak_bytes", MiB),
    }
    rows = history.evaluations
    for panel, name, key in (
        ("Loss", "validation", "loss"),
        ("Accuracy and F1", "accuracy", "accuracy"),
        ("Accuracy and F1", "F1", "f1"),
    ):
        pairs = [(row["update"], row[key]) for row in rows if row.get(key) is not None]
        if pairs:
            xs, ys = zip(*pairs, strict=True)
            panels[panel].append((name, numbers(xs, "update"), numbers(ys, key)))
    return {name: lines for name, lines in panels.items() if lines}


def _of_updates(
    name: str, updates: Sequence[Any], field: str, unit: float = 1
) -> list[Line]:
    """One line of a field over the updates, or none where it was not measured."""
    pairs = [
        (number, getattr(update, field))
        for number, update in enumerate(updates, start=1)
        if getattr(update, field) is not None
    ]
    if not pairs:
        return []
    values = numbers([value for _, value in pairs], field)
    return [(name, [float(n) for n, _ in pairs], [value / unit for value in values])]


def _line(name: str, xy: Any) -> Line:
    if not isinstance(xy, Sequence) or len(xy) != 2:
        raise ValueError(f"series[{name!r}] must be a pair of lists: (xs, ys).")
    xs = numbers(xy[0], f"xs of {name!r}")
    ys = numbers(xy[1], f"ys of {name!r}")
    same_length(xs=xs, ys=ys)
    return str(name), xs, ys


def _draw(axes, lines: Sequence[Line]) -> None:
    for index, (_, xs, ys) in enumerate(lines):
        many = len(xs) > _MOST_MARKERS
        axes.plot(
            xs, ys, color=style.COLOURS[index], marker=style.MARKERS[index],
            markevery=len(xs) // (_MOST_MARKERS // 2) if many else None,
            linewidth=1.6 if many else 2.0,
        )  # fmt: skip


def _name(fig, axes, lines: Sequence[Line]) -> None:
    ends = [
        (xs[-1], ys[-1], name, style.COLOURS[index])
        for index, (name, xs, ys) in enumerate(lines)
    ]
    at_line_ends(fig, axes, ends)
