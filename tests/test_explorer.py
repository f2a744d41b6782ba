"""The memory explorer: as a figure, with widgets, and what moving one of them does."""

from __future__ import annotations

import html
import sys

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from torch import nn

from helpers import memory, plots
from helpers.memory.units import readable
from helpers.plots import explorer
from helpers.plots.explorer import Choice
from tests import toys

WORDS = {"alt": "Stacked bars of memory.", "caption": "A toy, foretold."}
WIDGET = "application/vnd.jupyter.widget-view+json"
KiB = 1024


class Toy(toys.RowClassifier):
    """Its activations are wider than its weights: the micro-batch matters."""

    def __init__(self):
        super().__init__(features=64, classes=64)
        self.hidden = nn.Linear(64, 7)


def batch(rows):
    found = toys.rows(rows, features=64, classes=64)
    return {**found, "x": found["x"].float()}


def explore(**options):
    plots.memory_explorer(Toy, batch, 64, **{**WORDS, **options})


@pytest.fixture
def notebook(monkeypatch, tmp_path):
    """A shell that has a kernel, as far as anyone asks."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    hook = sys.displayhook, sys.excepthook
    shell = InteractiveShell.instance()
    shell.kernel = object()
    yield shell
    InteractiveShell.clear_instance()
    shell.history_manager.enabled = False
    sys.displayhook, sys.excepthook = hook


@pytest.fixture
def panel(notebook, monkeypatch):
    """Shows an explorer; gives what it displayed, and its panel."""
    made = []

    class Noted(explorer._Panel):
        def __init__(self, *arguments):
            made.append(self)
            super().__init__(*arguments)

    monkeypatch.setattr(explorer, "_Panel", Noted)

    def show(**options):
        with capture_output() as caught:
            explore(**options)
        (output,) = caught.outputs
        return output.data, made[-1]

    return show


@pytest.fixture
def forecasts(monkeypatch):
    """A list that grows with every forecast that is made."""
    made, real = [], memory.forecast

    def noted(*given, **settings):
        made.append(settings)
        return real(*given, **settings)

    monkeypatch.setattr(memory, "forecast", noted)
    return made


def test_without_a_notebook_it_is_the_figure_with_its_words(capsys):
    explore(micro_batch=16)
    said = capsys.readouterr().out
    peak = memory.forecast(Toy, batch).peak(16, 4)
    assert said.startswith("Figure: A toy, foretold. adamw, float32: micro-batches of")
    assert f"of 16, 4 a window, take {readable(peak)}." in said
    assert "\nStacked bars of memory. adamw" in said


def test_without_ipywidgets_a_notebook_gets_the_same_figure(notebook, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)  # importing it fails
    with capture_output() as caught:
        explore()
    (output,) = caught.outputs
    assert WIDGET not in output.data
    assert "micro-batches of 64, 1 a window" in output.data["text/html"]


def test_a_reader_without_widgets_still_gets_the_figure(panel):
    shown, made = panel()
    assert shown[WIDGET]["model_id"] == made.box.model_id
    assert shown["text/html"] == made.figure.value
    assert "<figure" in shown["text/html"] and "image/png" in shown


def test_the_slider_starts_where_the_plan_says(panel):
    found = memory.forecast(Toy, batch)
    budget = found.peak(16, 4)
    planned = memory.plan(found, budget, 64).micro_batch
    _, made = panel(budget=budget)
    assert made.micro_batch.value == planned < made.micro_batch.max == 64
    assert f"which fits in {readable(budget)}." in made.figure.value
    _, made = panel(budget=found.peak(1, 2) - 1)  # below the floor
    assert made.micro_batch.value == 1
    assert "which is too large for" in made.figure.value


def test_moving_the_slider_redraws_and_forecasts_nothing(panel, forecasts):
    _, made = panel(budget=KiB**2)
    before, found = made.figure.value, memory.forecast(Toy, batch)
    forecasts.clear()
    made.micro_batch.value = 24
    after = made.figure.value
    assert after != before and not forecasts
    words = "micro-batches of 24, 3 a window, the last one of 16, take "
    assert words + readable(found.peak(24, 3)) in after


def test_a_switch_forecasts_once_and_keeps_it(panel, forecasts):
    _, made = panel()
    assert len(forecasts) == 1
    first = made.figure.value
    made.optimizer.value = "sgd"
    assert len(forecasts) == 2 and "sgd, float32: micro-batches" in made.figure.value
    made.precision.value = "bf16"
    assert len(forecasts) == 3 and "sgd, bf16: micro-batches" in made.figure.value
    made.precision.value = "float32"
    made.optimizer.value = "adamw"
    assert len(forecasts) == 3
    assert made.figure.value == first


def test_what_the_model_lacks_is_said_and_the_figure_stays(panel):
    _, made = panel()
    before = made.figure.value
    made.checkpointing.value = True
    said = html.unescape(made.status.value)
    assert "Toy has no gradient checkpointing of its own" in said
    assert "The figure is the one from before." in said
    assert made.figure.value == before
    made.checkpointing.value = False
    assert "Toy" not in made.status.value


def test_every_choice_reaches_the_forecast(panel, monkeypatch):
    asked = []
    real = explorer._Kept.of

    def noted(kept, choice):
        asked.append(choice)
        return real(kept, choice._replace(checkpointing=False))

    monkeypatch.setattr(explorer._Kept, "of", noted)
    _, made = panel()
    made.checkpointing.value = True
    made.optimizer.value = "adafactor"
    made.precision.value = "fp16"
    assert asked[-1] == Choice("adafactor", "fp16", True)
    assert "adafactor, fp16, checkpointing: micro-batches" in made.figure.value


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"alt": ""}, "needs alt="),
        ({"caption": "two words"}, "needs caption="),
        ({"budget": 0}, "budget holds 0"),
        ({"micro_batch": 65}, "micro_batch must be a whole number from 1 to 64"),
    ],
)
def test_bad_input_is_one_sentence(bad, words):
    with pytest.raises(ValueError, match=words):
        explore(**bad)
