"""What checks are written with, and what learners read."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys

import numpy
import pytest
import torch

from helpers.exercises import (
    Wrong,
    call,
    close,
    copied,
    messages,
    number,
    solutions,
)
from helpers.exercises.messages import COLOURS, CORRECT, NOT_YET, OPEN, Code, Message

NUMBERS = [2, 2.0, numpy.float32(2), numpy.int64(2), numpy.array([2]), numpy.array(2.0)]
NUMBERS += [
    torch.tensor(2),
    torch.tensor([[2.0]]),
    torch.nn.Parameter(torch.ones(1) * 2),
]


@pytest.mark.parametrize("answer", NUMBERS, ids=repr)
def test_any_way_to_write_a_number_is_a_float(answer):
    assert number(answer) == 2.0 and type(number(answer)) is float


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "return"),
        (True, "a bool"),
        (torch.tensor(True), "a bool"),
        (numpy.bool_(True), "a bool"),
        ("2", "the text '2'"),
        ([2], "a list"),
        (2j, "a complex"),
        (numpy.ones(3), "shape (3,)"),
        (torch.ones(2, 1), "shape (2, 1)"),
        (math.nan, "divided by zero"),
        (torch.tensor(math.inf), "divided by zero"),
        pytest.param(object(), "an object", id="object"),
    ],
    ids=repr,
)
def test_what_is_no_number_is_refused_in_words(answer, words):
    with pytest.raises(Wrong, match=re.escape(words)):
        number(answer)


@pytest.mark.parametrize(
    ("a", "b", "is_close"),
    [
        (1.0, 1.0 + 1e-10, True),
        (0.1, 0.1 + 1e-10, True),
        (1e-12, 2e-12, False),
        (1e-10, 0.0, True),
        (1e-3, 0.0, False),
        (math.nan, 1.0, False),
        (math.nan, math.nan, False),
        (1.0, math.nan, False),
        (math.inf, math.inf, False),
        (torch.ones(2), torch.ones(2, dtype=torch.float64), True),
        (torch.ones(2, requires_grad=True), [1, 1], True),
        (torch.ones(1), torch.ones(2), False),
        (torch.tensor([1.0]), 1.0, False),
    ],
)
def test_close_is_relative_to_what_is_wanted(a, b, is_close):
    assert close(a, b, 1e-9) is is_close


def test_close_has_words_for_a_strange_answer():
    with pytest.raises(Wrong, match="the text 'two'"):
        close("two", 2.0, 1e-9)


def test_a_copy_shares_nothing_and_keeps_its_ties():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    twin, step = copied(model, optimizer)
    twin(torch.ones(2)).backward()
    before = model.weight.clone(), twin.weight.clone()
    step.step()
    assert torch.equal(model.weight, before[0]) and model.weight.grad is None
    assert not torch.equal(twin.weight, before[1])


def test_copies_of_lists_and_of_results_of_operations():
    leaf = torch.ones(2, requires_grad=True)
    things = [{"x": leaf * 2}, (leaf, 3)]
    twin = copied(things)
    assert twin[0]["x"].requires_grad and torch.equal(twin[0]["x"], things[0]["x"])
    with torch.no_grad():
        twin[0]["x"].zero_()
        twin[1][0].zero_()
    assert things[0]["x"].sum() == 4 and leaf.sum() == 2


def test_call_hands_over_keywords_and_gives_back_none():
    assert call(lambda a, *, b: a + b, 1, b=2) == 3
    assert call([].append, 1) is None


def test_a_message_reads_the_same_as_text_and_as_html():
    message = Message(
        "Exercise 2.1", NOT_YET, ["1 < 2 & `x`"], {"Hint 1": "Look."}, "Tb"
    )
    assert str(message) == "✘ Exercise 2.1: Not yet\n  1 < 2 & `x`\n  Hint 1: Look."
    html = message._repr_html_()
    assert "1 &lt; 2 &amp; <code>x</code>" in html and "role='status'" in html
    assert html.count("<details>") == 2 and "<pre" in html
    assert "<script" not in html


def test_code_is_escaped_and_a_lone_backtick_is_kept():
    html = Message("`<b>`", OPEN, ["it`s"])._repr_html_()
    assert "<code>&lt;b&gt;</code>" in html and "it`s" in html


WEIGHTS = (0.2126, 0.7152, 0.0722)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return sum(weight * p for weight, p in zip(WEIGHTS, linear, strict=True))


@pytest.mark.parametrize("colour", COLOURS.values())
@pytest.mark.parametrize("page", ["#ffffff", "#111111", "#212121"])
def test_bar_and_sign_stand_out_on_light_and_dark_pages(colour, page):
    light, dark = sorted((_luminance(colour), _luminance(page)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 3


def test_code_is_markdown_in_a_notebook():
    assert "```python\nx = 1\n```" in Code("One way:", "x = 1")._repr_markdown_()


def test_a_console_without_the_signs_still_shows_the_words():
    command = (
        "from helpers.exercises.messages import Message, show, CORRECT;"
        "show(Message('Exercise 2.1', CORRECT, ['Yes.']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", command],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "? Exercise 2.1: Correct" in done.stdout


def test_in_a_notebook_the_line_of_the_cell_is_found(monkeypatch):
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell.instance()
    try:
        assert messages.shell() is shell
        setup = (
            "from helpers.exercises import Exercise, call\n"
            "ex = Exercise('9.9', 'f', lambda a: str(call(a)), hints=['a', 'b'], "
            "lesson='none')"
        )
        with capture_output() as captured:
            shell.run_cell(setup).raise_error()
            shell.run_cell("def f():\n    return 1 / 0").raise_error()
            shell.run_cell("given = ex(f)").raise_error()
        assert shell.user_ns["given"] is shell.user_ns["f"]
        assert solutions.notebook_names() is shell.user_ns
    finally:
        InteractiveShell.clear_instance()
    (shown,) = captured.outputs
    assert (
        "in line 2 of your cell: <code>return 1 / 0</code>" in shown.data["text/html"]
    )
    assert "Not yet" in shown.data["text/plain"]


def test_the_states_differ_in_word_and_sign():
    assert len(set(messages.SIGNS.values())) == len(messages.SIGNS) == len(COLOURS)
    assert len(set(messages.TITLES.values())) == len(messages.TITLES)
    assert {CORRECT, NOT_YET, OPEN} <= set(messages.TITLES)
