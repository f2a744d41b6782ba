"""The foretold memory with a slider and switches: what would each choice take?"""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from helpers.plots.figure import check_words
from helpers.plots.forecast import forecast_bars
from helpers.plots.inputs import numbers, whole_number

if TYPE_CHECKING:
    from helpers.memory import Forecast
    from helpers.memory.fake import MakeBatch, MakeModel

_WIDE = {"description_width": "9em"}


class Choice(NamedTuple):
    """What decides the forecast; the micro-batch then only reads it."""

    optimizer: str = "adamw"
    precision: str = "float32"
    checkpointing: bool = False


def memory_explorer(
    make_model: MakeModel,
    make_batch: MakeBatch,
    effective_batch: int = 64,
    *,
    budget: float | None = None,
    micro_batch: int | None = None,
    alt: str = "",
    caption: str = "",
) -> None:
    """The bars of `forecast_bars` with a slider for the micro-batch, and switches.

    The switches choose optimizer, precision and checkpointing. Each combination is
    forecast when it is first asked for, which takes seconds, and then kept. Without
    ipywidgets, or outside a notebook, it is the figure alone.

    Args:
        make_model, make_batch: as `memory.forecast` takes them.
        effective_batch: rows of an update.
        budget: bytes, or None for no limit.
        micro_batch: where the slider starts; at the largest that fits, if not given.
        alt, caption: of the figure; the chosen numbers are added to both.

    Raises:
        ValueError: words are missing, or numbers out of range.
    """
    check_words(alt, caption)
    whole_number(effective_batch, "effective_batch")
    if budget is not None:
        numbers([budget], "budget", least=0, above=True)
    if micro_batch is not None:
        whole_number(micro_batch, "micro_batch", most=effective_batch)
    kept = _Kept(make_model, make_batch)
    rows = micro_batch or _start(kept.of(Choice()), budget, effective_batch)

    def draw(choice: Choice, rows: int) -> None:
        found = kept.of(choice)
        said = _said(found, choice, rows, effective_batch, budget)
        forecast_bars(
            found, effective_batch, budget=budget, chosen=rows,
            alt=f"{alt.strip()} {said}", caption=f"{caption.strip()} {said}",
        )  # fmt: skip

    widgets = _ipywidgets()
    if widgets is None:
        draw(Choice(), rows)
    else:
        _Panel(widgets, draw, rows, effective_batch).show()


class _Kept:
    """Forecasts, made when first needed."""

    def __init__(self, make_model: MakeModel, make_batch: MakeBatch) -> None:
        self._make = make_model, make_batch
        self._found: dict[Choice, Forecast] = {}

    def of(self, choice: Choice) -> Forecast:
        if choice not in self._found:
            from helpers import memory
            from helpers.memory.presets import OPTIMIZERS, PRECISIONS

            self._found[choice] = memory.forecast(
                *self._make,
                OPTIMIZERS[choice.optimizer],
                autocast=PRECISIONS[choice.precision],
                checkpointing=choice.checkpointing,
            )
        return self._found[choice]


class _Panel:
    """Slider, switches, and the figure, which follows them."""

    def __init__(
        self,
        widgets: Any,
        draw: Callable[[Choice, int], None],
        rows: int,
        effective_batch: int,
    ) -> None:
        from helpers.memory.presets import OPTIMIZERS, PRECISIONS

        self._draw = draw
        self.micro_batch = widgets.IntSlider(
            value=rows, min=1, max=effective_batch, description="micro-batch",
            continuous_update=False, style=_WIDE, layout={"width": "34em"},
        )  # fmt: skip
        self.optimizer = widgets.Dropdown(
            options=[*OPTIMIZERS], description="optimizer", style=_WIDE
        )
        self.precision = widgets.Dropdown(
            options=[*PRECISIONS], description="precision", style=_WIDE
        )
        self.checkpointing = widgets.Checkbox(
            value=False, description="gradient checkpointing", style=_WIDE
        )
        # An HTML widget and no Output: it is replaced at once, so nothing jumps.
        self.status = widgets.HTML()
        self.figure = widgets.HTML()
        self._choosers = [self.optimizer, self.precision, self.checkpointing]
        self._bundle = self._redraw()
        for chooser in (self.micro_batch, *self._choosers):
            chooser.observe(lambda _: self._redraw(), names="value")
        self.box = widgets.VBox(
            [self.micro_batch, *self._choosers, self.status, self.figure]
        )

    def show(self) -> None:
        """Display it, with the figure as it is for readers that run no widgets."""
        from IPython.display import display

        bundle = {**self._bundle, **_view(self.box)}
        display(bundle, raw=True)

    def _redraw(self) -> dict[str, Any]:
        choice = Choice(*(chooser.value for chooser in self._choosers))
        self._say("Forecasting: it takes some seconds the first time.")
        try:
            bundle = _caught(lambda: self._draw(choice, self.micro_batch.value))
        except ValueError as error:  # for example a model without checkpointing
            self._say(f"{error} The figure is the one from before.")
            return {}
        self._say("")
        self.figure.value = bundle["text/html"]
        return bundle

    def _say(self, text: str) -> None:
        # Always a line high, so that the figure under it stays where it is.
        text = html.escape(text) or "&nbsp;"
        self.status.value = f'<div aria-live="polite">{text}</div>'


def _ipywidgets() -> Any | None:
    """The package, or None without it or without a notebook to show it in."""
    try:
        import ipywidgets
        from IPython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()
    return ipywidgets if getattr(shell, "kernel", None) is not None else None


def _view(widget: Any) -> dict[str, Any]:
    """What a notebook's output needs to show a widget (ipywidgets 7 and 8)."""
    return {
        "application/vnd.jupyter.widget-view+json": {
            "version_major": 2,
            "version_minor": 0,
            "model_id": widget.model_id,
        }
    }


def _caught(draw: Callable[[], None]) -> dict[str, Any]:
    """The formats of the figure that `draw` displays, which is held back."""
    from IPython.utils.capture import capture_output

    with capture_output(stdout=False, stderr=False) as caught:
        draw()
    return dict(caught.outputs[-1].data)


def _start(found: Forecast, budget: float | None, effective_batch: int) -> int:
    if budget is None:
        return effective_batch
    from helpers import memory

    try:
        return memory.plan(found, budget, effective_batch).micro_batch
    except ValueError:  # below the floor: the smallest shows how far
        return 1


def _said(
    found: Forecast, choice: Choice, rows: int, effective_batch: int, budget
) -> str:
    """The choice and its peak in a sentence."""
    from helpers.memory.plans import window
    from helpers.memory.units import readable

    steps, last = window(rows, effective_batch)
    peak = found.peak(rows, steps, last)
    extras = ", checkpointing" if choice.checkpointing else ""
    tail = f", the last one of {last}" if last != rows else ""
    text = (
        f"{choice.optimizer}, {choice.precision}{extras}: micro-batches of {rows}, "
        f"{steps} a window{tail}, take {readable(peak)}"
    )
    if budget is None:
        return f"{text}."
    verdict = "fits in" if peak <= budget else "is too large for"
    return f"{text}, which {verdict} {readable(budget)}."
