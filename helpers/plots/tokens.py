"""Pictures of tokens: what each counts for, and the padding that goes with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from helpers.plots import style
from helpers.plots.figure import check_words, drawing
from helpers.plots.inputs import named, numbers, same_length, whole_number
from helpers.plots.labels import doubling, note

_MOST_ROWS = 80  # more bars than that cannot be told apart


def token_weights(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    alt: str = "",
    caption: str = "",
) -> None:
    """One sign a micro-batch: the weight of its targets, against how many it has.

    `series` is {name: (targets, weights)}, at most six. A weight of 1 is right, and
    drawn as a line. The axis of targets is logarithmic. Raises ValueError for lists
    that do not fit, or values that are not above 0.
    """
    check_words(alt, caption)
    clouds = [
        _cloud(name, pair) for name, pair in named(series, "series", most=6).items()
    ]
    with drawing(alt, caption, height=3.8) as fig:
        axes = fig.subplots()
        axes.axhline(1, color=style.INK, linewidth=1.2)
        for index, (name, targets, weights) in enumerate(clouds):
            axes.plot(
                targets, weights, style.MARKERS[index], label=name, alpha=0.8,
                color=style.COLOURS[index], markersize=5.5, markeredgewidth=0,
            )  # fmt: skip
        every = [x for _, targets, _ in clouds for x in targets]
        highest = max([1.0, *(y for _, _, weights in clouds for y in weights)])
        doubling(axes, every)
        axes.set_ylim(0, highest * 1.12)
        axes.set_xlabel("targets in the micro-batch")
        axes.set_ylabel("weight of each of its targets")
        left = min(every) / 1.2
        note(axes, left, 1 + highest * 0.02, "counts for too much", va="bottom")
        note(axes, left, 1 - highest * 0.02, "counts for too little", va="top")
        axes.legend(loc="upper right")


def padding(
    orders: Mapping[str, Sequence[Sequence[int]]], *, alt: str = "", caption: str = ""
) -> None:
    """One panel an order of the rows; one bar a row, its tokens and its padding.

    `orders` is {name: [lengths of the rows of micro-batch 1, of micro-batch 2, ...]},
    at most three. Each row is padded to the longest of its micro-batch. Raises
    ValueError for lengths that are not whole numbers of at least 1, or more than 80
    rows in one panel.
    """
    check_words(alt, caption)
    panels = {
        str(name): _batches(batches, f"orders[{name!r}]")
        for name, batches in named(orders, "orders", most=3).items()
    }
    longest = max(max(row) for batches in panels.values() for row in batches)
    with drawing(alt, caption, height=3.7) as fig:
        drawn = fig.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, (name, batches) in zip(drawn, panels.items(), strict=True):
            _bars(axes, batches)
            axes.set_title(name)
            axes.set_xlim(0, longest * 1.02)
            axes.set_xlabel("positions in the row")
            axes.grid(visible=False)
        most = max(len(batches) for batches in panels.values())
        drawn[0].set_ylabel("micro-batch" if most > 1 else "")
        fig.legend(
            *drawn[0].get_legend_handles_labels(), loc="outside upper right", ncols=2
        )


def _cloud(name: Any, pair: Any) -> tuple[str, list[float], list[float]]:
    if not isinstance(pair, Sequence) or len(pair) != 2:
        raise ValueError(
            f"series[{name!r}] must be a pair of lists: (targets, weights)."
        )
    targets = numbers(pair[0], f"targets of {name!r}", least=0, above=True)
    weights = numbers(pair[1], f"weights of {name!r}", least=0, above=True)
    same_length(targets=targets, weights=weights)
    return str(name), targets, weights


def _batches(batches: Any, name: str) -> list[list[int]]:
    if not isinstance(batches, Sequence) or not batches or not all(batches):
        raise ValueError(f"{name} must be a list of micro-batches with a row or more.")
    lengths = [[whole_number(length, name) for length in row] for row in batches]
    rows = sum(len(row) for row in lengths)
    if rows > _MOST_ROWS:
        raise ValueError(
            f"{name} has {rows} rows; at most {_MOST_ROWS} can be told apart."
        )
    return lengths


def _bars(axes, batches: Sequence[Sequence[int]]) -> None:
    """The rows from top to bottom, a gap after each micro-batch."""
    starts = [0, *accumulate(len(batch) + 1 for batch in batches)]
    places = [
        s + i for s, b in zip(starts, batches, strict=False) for i in range(len(b))
    ]
    tokens = [length for batch in batches for length in batch]
    left_over = [max(batch) - length for batch in batches for length in batch]
    axes.barh(places, tokens, 0.8, color=style.BLUE, label="tokens")
    axes.barh(
        places, left_over, 0.8, left=tokens, color=style.PALE_ORANGE, label="padding",
        hatch="///", edgecolor=style.ORANGE, linewidth=0,
    )  # fmt: skip
    middles = [s + (len(b) - 1) / 2 for s, b in zip(starts, batches, strict=False)]
    axes.set_yticks(middles, [str(i) for i in range(1, len(batches) + 1)])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(starts[-1] - 1.2, -0.8)
