"""Charts of measured memory: what fills it, and what smaller micro-batches save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from helpers.plots import style
from helpers.plots.figure import check_words, drawing
from helpers.plots.inputs import named, numbers, same_length
from helpers.plots.labels import mebibytes, short
from helpers.plots.style import MiB

# Colour and hatch of each kind of memory; a kind that is not listed takes the last.
_LOOKS = {
    "parameters": (style.BLUE, ""),
    "gradients": (style.ORANGE, "//"),
    "optimizer state": (style.GREEN, ".."),
    "activations": (style.SKY, "\\\\"),
    "temporary": (style.PURPLE, "xx"),
    "other": ("#9AA1A9", ""),
}
_SIGNS = {"completes": ("✓", "#00734F"), "fails": ("✗", "#B34700")}


def memory_bars(
    peaks: Mapping[Any, Mapping[str, float]],
    *,
    limit: float | None = None,
    outcomes: Mapping[Any, str] | None = None,
    xlabel: str = "rows in the batch",
    alt: str = "",
    caption: str = "",
) -> None:
    """Stacked bars of memory by kind, one bar for each entry of `peaks`.

    `peaks` is {label: {kind: bytes}}, drawn in the order given, with the total in MiB
    over each bar. `limit` (bytes) draws a line across. `outcomes` is {label: "fails" or
    "completes"}, written under the bar. Raises ValueError for anything else.
    """
    check_words(alt, caption)
    bars = {
        label: _sizes(kinds, label)
        for label, kinds in named(peaks, "peaks", most=8).items()
    }
    if limit is not None:
        (limit,) = numbers([limit], "limit", least=0, above=True)
    outcomes = _outcomes(outcomes or {}, bars)
    kinds = [kind for kind in _LOOKS if any(kind in sizes for sizes in bars.values())]
    totals = [sum(sizes.values()) / MiB for sizes in bars.values()]
    top = (max(*totals, (limit or 0) / MiB) or 1) * 1.12
    with drawing(alt, caption, height=4.0) as fig:
        axes = fig.subplots()
        _stack(axes, bars, kinds, top)
        for position, total in enumerate(totals):
            _number(axes, position, total, 3, mebibytes(total), va="bottom")
        if limit is not None:
            _line(axes, limit / MiB, f"limit\n{mebibytes(limit / MiB)} MiB")
        axes.set_xticks(range(len(bars)), [str(label) for label in bars])
        axes.tick_params(axis="x", length=0)
        padding = max(0.6, (4 - len(bars)) / 2)  # few bars stay slim and centred
        axes.set_xlim(-padding, len(bars) - 1 + padding)
        taken = _write_outcomes(axes, outcomes, len(bars))
        axes.set_xlabel(xlabel, labelpad=5 + taken)
        axes.set_ylabel("peak memory (MiB)")
        axes.set_ylim(0, top)
        axes.grid(axis="x", visible=False)
        fig.legend(
            loc="outside upper left", ncols=len(kinds), handlelength=1.5,
            columnspacing=1.4, handletextpad=0.5,
        )  # fmt: skip


def _stack(axes, bars, kinds, top: float) -> None:
    bottoms = [0.0] * len(bars)
    for kind in kinds:
        colour, hatch = _LOOKS[kind]
        heights = [sizes.get(kind, 0) / MiB for sizes in bars.values()]
        axes.bar(
            range(len(bars)), heights, 0.62, bottoms, label=kind, color=colour,
            hatch=hatch, edgecolor=style.CARD, linewidth=0.6,
        )  # fmt: skip
        for position, (start, height) in enumerate(zip(bottoms, heights, strict=True)):
            if len(bars) <= 4 and height > 0.09 * top:  # there is room for a number
                _number(
                    axes, position, start + height / 2, 0, mebibytes(height),
                    va="center", fontsize=style.SMALL, fontweight="normal",
                )  # fmt: skip
        bottoms = [a + b for a, b in zip(bottoms, heights, strict=True)]


def _number(axes, x, y, lift: float, text: str, **options) -> None:
    """A number on a light patch, so that neither hatch nor line runs through it."""
    axes.annotate(
        text, (x, y), xytext=(0, lift), textcoords="offset points", ha="center",
        zorder=5, bbox={"facecolor": style.CARD, "edgecolor": "none", "pad": 1.2},
        **{"fontweight": "bold", **options},
    )  # fmt: skip


def _write_outcomes(axes, outcomes: Mapping[int, tuple], bars: int) -> int:
    """Write sign and word under the bars; the height in points that took."""
    crowded = bars > 6
    for position, (sign, colour, word) in outcomes.items():
        axes.annotate(
            f"{sign}\n{word}" if crowded else f"{sign} {word}", (position, 0),
            xycoords=("data", "axes fraction"), xytext=(0, -19), ha="center", va="top",
            textcoords="offset points", color=colour, annotation_clip=False,
            fontsize=7.5 if crowded else style.SMALL, fontweight="bold",
        )  # fmt: skip
    return (26 if crowded else 15) if outcomes else 0


def memory_and_speed(
    micro_batches: Sequence[int],
    peak_bytes: Sequence[float],
    samples_per_second: Sequence[float],
    *,
    floor: float | None = None,
    alt: str = "",
    caption: str = "",
) -> None:
    """Peak memory over speed, against the micro-batch from the largest to the smallest.

    The three lists belong together, entry by entry: rows, bytes, rows a second. `floor`
    (bytes) is what no micro-batch goes below. Raises ValueError for bad lists.
    """
    check_words(alt, caption)
    rows = numbers(micro_batches, "micro_batches", least=1)
    peaks = [size / MiB for size in numbers(peak_bytes, "peak_bytes", least=0)]
    speed = numbers(samples_per_second, "samples_per_second", least=0)
    same_length(micro_batches=rows, peak_bytes=peaks, samples_per_second=speed)
    if floor is not None:
        (floor,) = numbers([floor], "floor", least=0)
    with drawing(alt, caption, height=4.7) as fig:
        panels = fig.subplots(nrows=2, sharex=True)
        panels[0].set_title("Peak memory (MiB)")
        panels[1].set_title("Speed (rows a second)")
        _numbered_line(panels[0], rows, peaks, style.BLUE, "o", mebibytes)
        _numbered_line(panels[1], rows, speed, style.VERMILION, "s", short)
        if floor is not None:
            _line(panels[0], floor / MiB, f"floor\n{mebibytes(floor / MiB)} MiB")
        panels[1].set_xscale("log", base=2)
        panels[1].set_xticks(rows, [f"{value:g}" for value in rows])
        panels[1].minorticks_off()
        panels[1].set_xlim(max(rows) * 1.3, min(rows) / 1.3)
        panels[1].set_xlabel("rows in the micro-batch")


def _sizes(kinds: Any, label: Any) -> dict[str, float]:
    named(kinds, f"peaks[{label!r}]")
    sizes = numbers(kinds.values(), f"peaks[{label!r}]", least=0)
    result: dict[str, float] = {}
    for kind, size in zip(kinds, sizes, strict=True):
        known = kind if kind in _LOOKS else "other"
        result[known] = result.get(known, 0) + size
    return result


def _outcomes(outcomes: Mapping[Any, str], bars: Mapping[Any, Any]) -> dict[int, tuple]:
    """{position of the bar: (sign, colour, word)}"""
    positions = {label: position for position, label in enumerate(bars)}
    result = {}
    for label, word in outcomes.items():
        if label not in positions or word not in _SIGNS:
            raise ValueError(
                f"outcomes holds {label!r}: {word!r}; the label must be one of "
                f'{list(bars)} and the outcome "fails" or "completes".'
            )
        result[positions[label]] = (*_SIGNS[word], word)
    return result


def _line(axes, height: float, name: str) -> None:
    axes.axhline(height, color=style.INK, linestyle=(0, (5, 3)), linewidth=1.4)
    axes.annotate(
        name, (1, height), xycoords=("axes fraction", "data"), xytext=(5, 0),
        textcoords="offset points", va="center", fontsize=style.SMALL,
        fontweight="bold", annotation_clip=False,
    )  # fmt: skip


def _numbered_line(axes, xs, ys, colour, marker, write) -> None:
    axes.plot(xs, ys, color=colour, marker=marker)
    for x, y in zip(xs, ys, strict=True):
        axes.annotate(
            write(y), (x, y), xytext=(2, 6), textcoords="offset points",
            ha="left", fontsize=style.SMALL,
        )  # fmt: skip
    axes.set_ylim(0, (max(ys) or 1) * 1.22)
