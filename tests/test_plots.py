"""Every figure of the course: its words, its picture, and what it refuses."""

import base64
import html
import io
import itertools
import math
import re
from types import SimpleNamespace

import IPython
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex, to_rgb
from matplotlib.text import Text
from PIL import Image

from helpers import plots
from helpers.history import History, Update
from helpers.plots import figure, style

WORDS = {"alt": 'What "it" shows, in <words>.', "caption": "A line under <it>."}
MiB = 2**20
KINDS = ("parameters", "gradients", "optimizer state", "activations", "temporary")


def kinds(rows):
    return dict(zip(KINDS, (n * MiB for n in (5, 5, 9, rows, 9)), strict=True))


def run(updates=24):
    """A history with every panel."""
    made = [Update(1 / i, 0.1 / i, i % 3, 32, 0.1, 9 * MiB) for i in range(1, updates)]
    scores = {"loss": 0.5, "accuracy": 0.8, "f1": 0.7}
    return History(made, [{"epoch": 1, "update": updates - 1, **scores}])


GRADIENTS = [
    torch.tensor(p) for p in ([1.0, 0.5], [1.2, -0.3], [0.8, 0.2], [1.0, -0.4])
]

SIZES = [64, 32, 16, 8]
LINES = {f"batch {b}": ([8, 16, 32], [0.7 - b / 300, 0.6, b / 400]) for b in SIZES[1:]}

FORETOLD = SimpleNamespace(
    floor=28.4 * MiB,
    at_peak=lambda rows, steps, last: kinds(rows),
    peak=lambda rows, steps, last: sum(kinds(rows).values()),
)

# What a lesson gives to each public function.
FIGURES = {
    "course_map": {"current": 3},
    "curves": {"series": LINES, "xlabel": "updates", "ylabel": "validation loss"},
    "cut_into_micro_batches": {"rows": 76, "micro_batch": 8, "accumulation_steps": 4},
    "ease_against_control": {
        "measures": {
            "lines you write": {"PyTorch": 11, "Accelerator": 9, "Trainer": 10},
            "steps in your hands": {"PyTorch": 7, "Accelerator": 4, "Trainer": 0},
            "relative error": {"PyTorch": 1e-7, "Accelerator": 0.37, "Trainer": 1.5},
        },
        "log": ["relative error"],
    },
    "error_bars": {"errors": {"no fault": 1.4e-16, "never clipped": 1.0, "exact": 0.0}},
    "fails_and_completes": {},
    "forecast_bars": {
        "forecast": FORETOLD,
        "effective_batch": 64,
        "budget": 33 * MiB,
        "chosen": 18,
    },
    "gradient_spread": {"batch_sizes": SIZES[::-1], "spread": [8.0, 4.4, 2.1, 0.9]},
    "gradients_add_up": {"parts": GRADIENTS, "whole": sum(GRADIENTS)},
    "history": {"history": run()},
    "memory_and_speed": {
        "micro_batches": SIZES,
        "peak_bytes": [17 * MiB, 9 * MiB, 5 * MiB, 3 * MiB],
        "samples_per_second": [900, 850, 700, 500],
        "floor": MiB,
    },
    "memory_bars": {
        "peaks": {rows: kinds(rows) for rows in SIZES},
        "limit": 60 * MiB,
        "outcomes": {64: "fails", 32: "completes"},
    },
    "one_update": {"accumulation_steps": 4},
    "padding": {"orders": {"as they come": [[9, 30], [12, 25]], "sorted": [[9, 12]]}},
    "score_map": {
        "columns": ["the slides' loop", "Trainer, as shipped"],
        "rows": ["full windows", "short last window"],
        "errors": [[1e-16, 3.0], [0.63, 0.0049]],
    },
    "three_efficiencies": {},
    "token_weights": {
        "series": {"1 row": ([9, 31, 60], [3.1, 1, 0.5]), "8 rows": ([250], [1.1])}
    },
    "update_times": {
        "processes": [2**i for i in range(13)],
        "seconds": {
            "every micro-batch": [1.5] + [1.5 + i / 6 for i in range(12)],
            "once a window": [1.5] + [1.5 + i / 48 for i in range(12)],
        },
        "compute": 1.5,
    },
    "window_ratios": {"ratios": {"a": [1, 1], "b": [1, 1, 0.5], "c": [1, 1, 1]}},
}
DRAWN = sorted(FIGURES)

# What is not to be drawn, and a part of the sentence that says so.
REFUSED = [
    ("curves", {"series": {}}, "must be a dictionary with at least one entry"),
    ("curves", {"series": {"a": [1]}}, "must be a pair of lists"),
    ("curves", {"series": {"a": ([1], [])}}, "ys of 'a' is empty"),
    ("curves", {"series": {"a": ([1, 2], [1])}}, "xs has 2, ys has 1"),
    ("curves", {"series": {"a": ([1], [math.nan])}}, "ys of 'a' holds nan"),
    ("curves", {"series": dict.fromkeys("abcdefg", ([1], [1]))}, "more than 6"),
    (
        "curves",
        {"series": {"a": ([0, 1], [1, 2])}, "doubling": True},
        "xs holds 0; every value must be above 0",
    ),
    ("cut_into_micro_batches", {"rows": 0}, "rows must be a whole number at least 1"),
    ("cut_into_micro_batches", {"micro_batch": 2.5}, "micro_batch must be a whole"),
    ("cut_into_micro_batches", {"accumulation_steps": True}, "it is True"),
    ("ease_against_control", {"measures": {}}, "at least one entry"),
    ("ease_against_control", {"measures": {"a": {"b": -1}}}, "must be at least 0"),
    ("ease_against_control", {"log": "steps in your hands"}, "must be above 0"),
    (
        "ease_against_control",
        {"measures": {"a": {"b": 1}, "c": {"d": 1}}},
        "the same ways in the same order",
    ),
    ("error_bars", {"errors": {"a": -1e-3}}, "every value must be at least 0"),
    ("error_bars", {"errors": {"a": math.inf}}, "every value must be finite"),
    ("error_bars", {"rounding": 0}, "rounding holds 0; every value must be above 0"),
    ("error_bars", {"start": 0}, "start holds 0; every value must be above 0"),
    ("forecast_bars", {"effective_batch": 0}, "effective_batch must be a whole"),
    ("forecast_bars", {"budget": 0}, "budget holds 0; every value must be above 0"),
    ("forecast_bars", {"chosen": 65}, "chosen must be a whole number from 1 to 64"),
    ("forecast_bars", {"micro_batches": [0]}, "micro_batches must be a whole number"),
    ("forecast_bars", {"micro_batches": range(1, 10)}, "10 sizes; a figure has from 1"),
    ("gradient_spread", {"spread": []}, "spread is empty; give at least one number"),
    ("gradient_spread", {"batch_sizes": [1, 2]}, "batch_sizes has 2, spread has 4"),
    ("gradient_spread", {"batch_sizes": 8}, "must be a list of numbers; it is 8"),
    ("gradients_add_up", {"parts": []}, "a list of flat tensors of 2 numbers each"),
    ("gradients_add_up", {"whole": torch.zeros(2)}, "whole must not be zero"),
    ("gradients_add_up", {"whole": torch.ones(2, 2)}, "whole must be one flat tensor"),
    ("gradients_add_up", {"parts": [torch.tensor([1, math.nan])]}, "must be finite"),
    ("history", {"history": History()}, "holds no update"),
    ("memory_and_speed", {"peak_bytes": [-1, 1, 1, 1]}, "peak_bytes holds -1; every"),
    ("memory_and_speed", {"floor": -1}, "floor holds -1; every value must be"),
    ("memory_bars", {"peaks": {8: {"gradients": -1}}}, r"peaks\[8\] holds -1"),
    ("memory_bars", {"limit": 0}, "limit holds 0; every value must be above 0"),
    ("memory_bars", {"outcomes": {7: "fails"}}, "outcomes holds 7: 'fails'; the label"),
    ("memory_bars", {"outcomes": {8: "maybe"}}, 'the outcome "fails" or "completes"'),
    ("one_update", {"accumulation_steps": 9}, "a whole number from 1 to 8; it is 9"),
    ("padding", {"orders": {"a": []}}, "a list of micro-batches with a row or more"),
    ("padding", {"orders": {"a": [[2.5]]}}, "must be a whole number at least 1"),
    ("padding", {"orders": {"a": [[9] * 81]}}, "has 81 rows; at most 80"),
    ("token_weights", {"series": {"a": [1]}}, "must be a pair of lists"),
    ("token_weights", {"series": {"a": ([0], [1])}}, "must be above 0"),
    ("token_weights", {"series": {"a": ([1, 2], [1])}}, "targets has 2, weights has 1"),
    ("update_times", {"processes": [0, 1]}, "processes holds 0; every value must"),
    ("update_times", {"compute": -1}, "compute holds -1; every value must be"),
    ("update_times", {"seconds": {"a": [1]}}, "processes has 13, seconds has 1"),
    ("window_ratios", {"ratios": {"a": []}}, "ratios holds no window at all"),
    ("window_ratios", {"ratios": {"a": [math.inf]}}, "every value must be finite"),
]


@pytest.fixture(scope="module")
def draw():
    """Draws one as a notebook does: what it got, the figure, and the words in it."""

    def run(name, **others):
        if others or name not in made:
            shown.clear()
            getattr(plots, name)(**FIGURES[name] | others, **WORDS)
            figure = SimpleNamespace(**shown, words=words.copy())
            if others:
                return figure
            made[name] = figure
        return made[name]

    def keep(fig):
        shown["figure"] = fig
        words.clear()
        return pictures(fig)

    def note(text, renderer):
        if text.get_visible() and text.get_text().strip():
            words.append((text, text.get_window_extent(renderer)))
        return draw_text(text, renderer)

    def display(bundle, raw):
        shown.update(html=bundle["text/html"], png=bundle["image/png"])

    made, shown, words = {}, {}, []
    pictures, draw_text = figure._pictures, Text.draw
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IPython, "get_ipython", lambda: "a notebook")
        patch.setattr(IPython.display, "display", display)
        patch.setattr(figure, "_pictures", keep)
        patch.setattr(Text, "draw", note)
        yield run


def picture(data):
    return Image.open(io.BytesIO(base64.b64decode(data)))


def sharp(drawn):
    return picture(re.search(r'src="data:image/png;base64,([^"]+)"', drawn.html)[1])


def contrast(colour):
    """How far a colour is from white for the eye (WCAG 2.2), 1 to 21."""
    red, green, blue = (((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour))
    return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)


def test_every_public_figure_is_tested_here():
    # The explorer is `forecast_bars` with a slider: tests/test_explorer.py.
    assert {*plots.__all__} - {"show", "memory_explorer"} == {*FIGURES}


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_carries_its_words_and_stays_small(name, draw):
    drawn = draw(name)
    assert f'alt="{html.escape(WORDS["alt"])}"' in drawn.html
    assert "<figcaption>A line under &lt;it&gt;.</figcaption>" in drawn.html
    assert sharp(drawn).width == 2 * picture(drawn.png).width == 1400
    assert len(drawn.html) < 60_000 and len(drawn.png) < 24_000  # in base64
    assert not plt.get_fignums()


@pytest.mark.parametrize("name", DRAWN)
def test_no_words_are_cut_off_or_overlap_or_pale(name, draw):
    drawn = draw(name)
    assert drawn.words
    width, height = drawn.figure.bbox.size * 2  # drawn at 200 dots an inch
    for text, box in drawn.words:
        assert box.x0 > 0 and box.y0 > 0 and box.x1 < width and box.y1 < height, text
        colour = to_hex(text.get_color()).upper()
        assert colour == style.CARD or contrast(colour) >= 4.5, (text, colour)
    for (one, a), (other, b) in itertools.combinations(drawn.words, 2):
        wide = min(a.x1, b.x1) - max(a.x0, b.x0)
        high = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert wide < 2 or high < 2 or one is other, (one, other)


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_is_a_light_card_on_any_theme(name, draw):
    for image in (sharp(draw(name)), picture(draw(name).png)):
        assert not image.has_transparency_data
        for corner in itertools.product((0, image.width - 1), (0, image.height - 1)):
            assert image.convert("RGB").getpixel(corner) == (255, 255, 255)


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("missing", ["alt", "caption"])
def test_a_figure_without_its_words_is_refused(name, missing):
    sentence = rf"^This figure needs {missing}= with at least 3 words .*\.$"
    for text in ("", "two words", "  a   b  ", None, 3):
        with pytest.raises(ValueError, match=sentence):
            getattr(plots, name)(**FIGURES[name], **WORDS | {missing: text})
    del (given := WORDS.copy())[missing]
    with pytest.raises(ValueError, match=sentence):
        getattr(plots, name)(**FIGURES[name], **given)


@pytest.mark.parametrize(("name", "bad", "sentence"), REFUSED)
def test_bad_data_is_refused_in_a_sentence(name, bad, sentence, capsys):
    with pytest.raises(ValueError, match=sentence) as caught:
        getattr(plots, name)(**{**FIGURES[name], **WORDS, **bad})
    text = str(caught.value)
    assert text.endswith(".") and "\n" not in text and len(text) < 220
    assert not capsys.readouterr().out and not plt.get_fignums()


def test_axes_begin_and_step_where_they_are_told(draw):
    rows = ([1, 2, 4, 16], [0.2, 0.1, 0.08, 0.02])
    axes = draw("curves", series={"a": rows}, doubling=True).figure.axes[0]
    ticks = [tick.get_text() for tick in axes.get_xticklabels()]
    assert axes.get_xscale() == "log" and ticks == ["1", "2", "4", "8", "16"]
    bars = draw("error_bars", errors={"a": 0.1}, rounding=1e-6, start=1e-7)
    assert bars.figure.axes[0].get_xlim()[0] == pytest.approx(1e-7)


def test_colour_is_never_the_only_sign(draw):
    lines = draw("curves").figure.axes[0].lines
    assert len({line.get_marker() for line in lines}) == len(lines) == 3
    names = [text.get_text() for text, _ in draw("curves").words]
    assert all(f"batch {b}" in names for b in SIZES[1:])
    bars = draw("memory_bars").figure.axes[0].containers
    assert len({bar[0].get_hatch() for bar in bars}) == len(bars) == len(KINDS)
    names = [text.get_text() for text, _ in draw("memory_bars").words]
    assert {"✗ fails", "✓ completes", *KINDS} <= {*names}
    dots = draw("error_bars").figure.axes[0].lines
    assert {"o", "D"} <= {dot.get_marker() for dot in dots}
    strips = draw("window_ratios").figure.axes
    assert len({strip.lines[1].get_marker() for strip in strips}) == 3
    assert len(style.COLOURS) == len({*style.MARKERS}) == len({*style.INKS})


@pytest.mark.parametrize("name", DRAWN)
def test_the_small_palette_changes_no_picture_for_the_eye(name, draw):
    exact, small = io.BytesIO(), sharp(draw(name)).convert("RGB")
    draw(name).figure.savefig(exact, dpi=200)
    off = abs(np.asarray(Image.open(exact).convert("RGB"), int) - np.asarray(small))
    assert (off.max(2) > 48).mean() < 0.0025  # of 255; pixels at the edges of letters
    kept = np.array([colour for _, colour in small.getcolors()])
    for text, _ in draw(name).words:  # words keep their colour, however few they are
        assert abs(kept - 255 * np.array(to_rgb(text.get_color()))).max(1).min() < 13


def test_a_readers_own_figure_is_closed_and_others_stay(capsys, monkeypatch):
    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    other, own = plt.figure(), plt.figure(figsize=(4, 3))
    plots.show(own, **WORDS)
    assert plt.get_fignums() == [other.number]
    assert capsys.readouterr().out == f"Figure: {WORDS['caption']}\n{WORDS['alt']}\n"
    with pytest.raises(ValueError, match="needs alt="):
        plots.show(other, caption=WORDS["caption"])
    plt.close(other)
