"""Questions answered with a letter, and predictions with a number."""

from __future__ import annotations

import pytest
import torch

from helpers.exercises import (
    Choice,
    Prediction,
)
from helpers.exercises.messages import CORRECT, FAULT, NOT_YET, OPEN
from tests.fake_lesson import LESSON, install


@pytest.fixture(autouse=True)
def course(tmp_path, monkeypatch):
    return install(tmp_path, monkeypatch)


def question(**changed):
    options = {"a": "Too early.", "b": "There it belongs.", "c": "Too late."}
    wanted = dict(options=options, right="b", hints=["One.", "Two."], lesson=LESSON)
    return Choice("2.3", "where", **{**wanted, **changed})


@pytest.mark.parametrize("letter", ["b", "B", " b ", "b)", "(b)", "b."])
def test_a_right_letter_however_typed(letter):
    message = question().judge(letter)
    assert message.state == CORRECT and message.lines == ["There it belongs."]


@pytest.mark.parametrize(
    ("answer", "words"),
    [("a", "Too early."), ("C", "Too late."), ("d", "letters a, b, c"), (2, "letters")],
)
def test_a_wrong_letter_gets_its_own_why(answer, words):
    message = question().judge(answer)
    assert message.state == NOT_YET and words in str(message)


@pytest.mark.parametrize(
    "changed",
    [
        {"right": "d"},
        {"options": {"b": "Alone."}},
        {"options": {"a": "Same.", "b": "Same."}},
    ],
)
def test_a_question_without_a_real_choice_is_refused(changed):
    with pytest.raises(ValueError, match="two or more options"):
        question(**changed)


def prediction(tolerance=1.25):
    return Prediction(
        "2.4",
        "peak_at_64",
        unit="MiB",
        tolerance=tolerance,
        explain="Activations grow with the rows.",
        too_low="Most forget the floor.",
        too_high="The floor counts once.",
        hints=["One.", "Two."],
        lesson=LESSON,
    )


@pytest.mark.parametrize(
    ("guess", "measured", "state", "words"),
    [
        (90, 98.5, CORRECT, "You said 90 MiB, measured 98.5 MiB: within 9 %."),
        (98.5, torch.tensor(98.5), CORRECT, "exactly that. Activations grow"),
        (20, 98.5, NOT_YET, "4.9 times too low. Most forget the floor."),
        (60, 98.5, NOT_YET, "39 % too low"),
        (150, 98.5, NOT_YET, "52 % too high. The floor counts once."),
        (12345, 98.5, NOT_YET, "You said 12,345 MiB"),
        (-3, 98.5, NOT_YET, "above 0"),
        ("many", 98.5, NOT_YET, "the text 'many'"),
        (90, 0, FAULT, "not judged"),
        (..., 98.5, OPEN, "Not attempted"),
    ],
)
def test_a_prediction_is_compared_with_what_was_measured(guess, measured, state, words):
    message = prediction().judge(guess, measured)
    assert message.state == state and words in str(message), message


def test_a_wrong_prediction_can_be_changed_at_will():
    assert "as often as you like" in str(prediction().judge(1, 98.5))


def test_a_tolerance_is_a_factor_above_one():
    with pytest.raises(ValueError, match="factor above 1"):
        prediction(0.2)
