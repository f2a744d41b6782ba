"""A chart of foretold memory: a bar for each micro-batch of an effective batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from helpers.plots import style
from helpers.plots.figure import check_words, drawing
from helpers.plots.inputs import numbers, whole_number
from helpers.plots.labels import at_line_ends, mebibytes
from helpers.plots.memory import (
    _LOOKS,
    _number,
    _sizes,
    _stack,
    _write_outcomes,
)
from helpers.plots.style import MiB

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from helpers.memory import Forecast

MOST_BARS = 8
HEIGHT = 4.2
_FITS, _DOES_NOT = ("✓", "#00734F", "fits"), ("✗", "#B34700", "too large")
_KINDS = tuple(_LOOKS)
_FAR = 1.7  # a budget this many times the tallest bar lies outside the figure


def forecast_bars(
    forecast: Forecast,
    effective_batch: int = 64,
    *,
    budget: float | None = None,
    micro_batches: Sequence[int] | None = None,
    chosen: int | None = None,
    alt: str = "",
    caption: str = "",
) -> None:
    """Stacked bars of the foretold peak by kind, a bar for each micro-batch.

    Under each bar stand its rows and the accumulation steps that the effective batch
    takes; a line marks the floor: what accumulation needs with the smallest of rows.

    Args:
        forecast: of `memory.forecast`.
        effective_batch: rows of an update, the same for all bars.
        budget: bytes; draws a line, and says under each bar whether it fits.
        micro_batches: rows of each bar, at most 8; powers of two, if not given.
        chosen: a micro-batch to draw as well, with a frame.

    Raises:
        ValueError: numbers out of range, or more than 8 bars.
    """
    check_words(alt, caption)
    chart = _chart(forecast, effective_batch, budget, micro_batches, chosen)
    with drawing(alt, caption, HEIGHT) as fig:
        _draw(fig, chart)


def save_forecast_bars(
    path: Path | str, forecast: Forecast, effective_batch: int = 64, **options
) -> None:
    """Write the figure of `forecast_bars`, with the same options, to a file.

    `alt` and `caption` lie in a PNG's metadata, as Description and Title. Raises
    ValueError as `forecast_bars` does, or for a format that Matplotlib lacks, and
    OSError where the file cannot be written.
    """
    from matplotlib.figure import Figure

    words = {name: options.pop(name, "") for name in ("alt", "caption")}
    check_words(**words)
    options = {"budget": None, "micro_batches": None, "chosen": None, **options}
    chart = _chart(forecast, effective_batch, **options)
    metadata = {"Title": words["caption"], "Description": words["alt"]}
    png = Path(path).suffix.lower() == ".png"
    with style.styled():
        fig = Figure(figsize=(style.WIDTH, HEIGHT), layout="constrained")
        fig.get_layout_engine().set(w_pad=0.09, h_pad=0.09)
        _draw(fig, chart)
        fig.savefig(path, dpi=200, metadata=metadata if png else None)


def micro_batch_sizes(
    effective_batch: int, most: int | None = None, around: int | None = None
) -> list[int]:
    """Powers of two up to the effective batch, and the effective batch itself.

    No more than `most` of them, which then lie around the size `around`, or are the
    largest.
    """
    sizes = [2**i for i in range(effective_batch.bit_length())]
    if sizes[-1] != effective_batch:
        sizes.append(effective_batch)
    if most is None or len(sizes) <= most:
        return sizes
    last = len(sizes) - most
    below = sum(size <= around for size in sizes) if around else len(sizes)
    start = min(max(below - most // 2 - 1, 0), last)
    return sizes[start : start + most]


class _Chart(NamedTuple):
    bars: dict[int, dict[str, float]]  # rows: {kind: bytes}
    effective_batch: int
    floor: float
    budget: float | None
    chosen: int | None


def _chart(forecast, effective_batch, budget, micro_batches, chosen) -> _Chart:
    whole_number(effective_batch, "effective_batch")
    if budget is not None:
        (budget,) = numbers([budget], "budget", least=0, above=True)
    if chosen is not None:
        whole_number(chosen, "chosen", most=effective_batch)
    if micro_batches is None:
        room = MOST_BARS - (chosen is not None)
        fits = chosen
        if budget is not None and fits is None:
            fits = _largest_power(forecast, effective_batch, budget)
        sizes = micro_batch_sizes(effective_batch, room, fits)
    else:
        sizes = [
            whole_number(rows, "micro_batches", most=effective_batch)
            for rows in micro_batches
        ]
    sizes = sorted({*sizes, *([chosen] if chosen else [])})
    if not 0 < len(sizes) <= MOST_BARS:
        raise ValueError(
            f"micro_batches has {len(sizes)} sizes; a figure has from 1 to {MOST_BARS} "
            "bars."
        )
    from helpers.memory.plans import window

    bars = {}
    for rows in sizes:
        split = forecast.at_peak(rows, *window(rows, effective_batch))
        bars[rows] = _sizes(split, rows)
    return _Chart(bars, effective_batch, forecast.floor, budget, chosen)


def _largest_power(forecast, effective_batch: int, budget: float) -> int:
    from helpers.memory.plans import window

    fitting = [1]
    for rows in micro_batch_sizes(effective_batch):
        if forecast.peak(rows, *window(rows, effective_batch)) <= budget:
            fitting.append(rows)
    return fitting[-1]


def _draw(fig: Figure, chart: _Chart) -> None:
    peaks = {rows: sum(sizes.values()) for rows, sizes in chart.bars.items()}
    tallest = max(*peaks.values(), chart.floor)
    near = chart.budget is not None and chart.budget <= _FAR * tallest
    top = 1.12 * max(tallest, chart.budget if near else 0)
    unit, name = (MiB, "MiB") if tallest < 10 * 1024 * MiB else (1024 * MiB, "GiB")
    # The bars are stacked in MiB; for GiB their bytes are made 1024 times fewer.
    scaled = {
        rows: {kind: size * MiB / unit for kind, size in sizes.items()}
        for rows, sizes in chart.bars.items()
    }
    kinds = [k for k in _KINDS if any(sizes.get(k) for sizes in scaled.values())]
    axes = fig.subplots()
    _stack(axes, scaled, kinds, math.inf)  # no numbers within the bars
    for position, peak in enumerate(peaks.values()):
        _number(axes, position, peak / unit, 3, mebibytes(peak / unit), va="bottom")
    axes.set_xticks(range(len(peaks)), [_product(rows, chart) for rows in peaks])
    axes.tick_params(axis="x", length=0)
    room = max(0.6, (4 - len(peaks)) / 2)
    axes.set_xlim(-room, len(peaks) - 1 + room)
    axes.set_ylim(0, top / unit)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel(f"foretold peak ({name})")
    _frame(axes, chart, list(peaks), [peak / unit for peak in peaks.values()])
    taken = 0
    if chart.budget is not None:
        signs = [
            _FITS if peak <= chart.budget else _DOES_NOT for peak in peaks.values()
        ]
        taken = _write_outcomes(axes, dict(enumerate(signs)), 8)  # small letters
    axes.set_xlabel("micro-batch × accumulation steps", labelpad=5 + taken)
    fig.legend(
        loc="outside upper left", ncols=len(kinds), handlelength=1.5,
        columnspacing=1.4, handletextpad=0.5,
    )  # fmt: skip
    _lines(fig, axes, chart, near, unit, name)


def _product(rows: int, chart: _Chart) -> str:
    return f"{rows} × {math.ceil(chart.effective_batch / rows)}"


def _frame(axes, chart: _Chart, rows: list[int], peaks: list[float]) -> None:
    """Mark the chosen bar: a frame around it, and its label in bold."""
    if chart.chosen is None:
        return
    place = rows.index(chart.chosen)
    look = {"color": "none", "edgecolor": style.INK, "linewidth": 1.8}
    axes.bar(place, peaks[place], 0.74, **look)
    axes.get_xticklabels()[place].set_fontweight("bold")


def _lines(fig: Figure, axes, chart: _Chart, near: bool, unit: int, name: str) -> None:
    """The floor and the budget, with their names at the right edge."""
    right, top = axes.get_xlim()[1], axes.get_ylim()[1]
    ends = []
    marks = [("floor", chart.floor, style.MUTED, (0, (1.5, 2)))]
    if chart.budget is not None:
        marks.append(("budget", chart.budget, style.INK, (0, (5, 3))))
    for word, size, colour, dashes in marks:
        height, label = size / unit, f"{word}\n{mebibytes(size / unit)} {name}"
        if word == "floor" or near:
            axes.axhline(height, color=colour, linestyle=dashes, linewidth=1.4)
        else:
            height, label = 0.95 * top, f"↑ {label}"  # beyond the figure
        ends.append((right, height, label, colour))
    at_line_ends(fig, axes, ends)
