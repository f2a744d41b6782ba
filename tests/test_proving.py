"""The proofs prove something: each fault of a check, a proof or a lesson is found."""

from __future__ import annotations

import json

import pytest
import torch

from helpers.exercises import (
    Choice,
    Exercise,
    Prediction,
    Wrong,
    call,
    number,
    solutions,
)
from tests.answers import Proof
from tests.proving import faults

LESSON = "02_fake"
SOURCES = {
    "2.1": "def halved(x):\n    '''Half of x.'''\n    return x / 2",
    "2.2": 'where = "b"',
    "2.3": "peak = 90.0",
    "2.4": "total = sum(parts)",
    "2.5": "class Half:\n    def get(self, x):\n        return x / 2",
}


@pytest.fixture(autouse=True)
def course(tmp_path, monkeypatch):
    path = tmp_path / "_solutions.json"
    path.write_text(json.dumps({LESSON: SOURCES}))
    monkeypatch.setattr(solutions, "PATH", path)


def half(answer, *given):
    for x in (3.0, 5.0):
        got = number(call(answer, x))
        if got == 2 * x:
            raise Wrong("You doubled it.")
        if got != x / 2:
            raise Wrong(f"Half of {x} is not {got}.")
    return "Half is half."


def make(check=half, number="2.1", name="halved"):
    return Exercise(number, name, check, hints=["Nudge.", "Divide."], lesson=LESSON)


def other(x):
    return 0.5 * x


def renamed(y):
    return y / 2


def doubled(x):
    return 2 * x


def same(x):
    return x


def nested(x):
    return (lambda part: part * 0.5)(x)


GOOD = dict(right=[other], wrong=[(doubled, "doubled"), (same, "Half of 3.0")])


def test_a_proved_exercise_has_no_fault():
    assert faults(make(), Proof(**GOOD)) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"right": []}, "another way"),
        ({"right": [renamed]}, "another way"),
        ({"right": [same]}, "right answer 1 should be 'correct'"),
        ({"wrong": [(doubled, "doubled")]}, "fewer than two wrong"),
        ({"wrong": [(doubled, "doubled"), (doubled, "doubled")]}, "same words"),
        ({"wrong": [(doubled, "tripled"), (same, "Half")]}, "must say 'tripled'"),
        ({"wrong": [(doubled, ""), (same, "Half")]}, "must say ''"),
        (
            {"wrong": [(other, "x"), (same, "Half")]},
            "wrong answer 1 should be 'not yet'",
        ),
        ({"namespace": {}, "right": [nested]}, None),
    ],
)
def test_a_fault_of_the_proof_is_found(changed, words):
    found = faults(make(), Proof(**{**GOOD, **changed}))
    if words is None:
        assert found == []
    else:
        assert any(words in fault for fault in found), found


def accepts_all(answer):
    number(call(answer, 1.0))
    return "Fine."


def refuses_all(answer):
    number(call(answer, 1.0))
    raise Wrong("No.")


def not_by_call(answer):
    answer(1.0)
    return half(answer)


def draws(answer):
    next_draw = torch.rand(1)  # restored by the engine, so no fault
    return half(answer) if next_draw < 2 else ""


def changes_input(answer, batch):
    batch += 1
    return half(answer)


_seen: list[object] = []


def only_once(answer):
    result = half(answer)
    if answer in _seen:
        raise Wrong("Only once.")
    _seen.append(answer)
    return result


@pytest.mark.parametrize(
    ("check", "given", "words"),
    [
        (accepts_all, (), "wrong answer 1 should be 'not yet'"),
        (refuses_all, (), "the official solution should be 'correct'"),
        (refuses_all, (), "right answer 1 should be 'correct'"),
        (not_by_call, (), "the check stops at"),
        (lambda answer: "Yes.", (), "the stub that raises NotImplementedError"),
        (changes_input, lambda: (torch.zeros(2),), "changes its inputs"),
        (only_once, (), "a second time"),
        (draws, (), None),
    ],
)
def test_a_fault_of_the_check_is_found(check, given, words):
    found = faults(make(check), Proof(**GOOD, given=given))
    if words is None:
        assert found == []
    else:
        assert any(words in fault for fault in found), found


def test_a_check_that_leaves_the_random_state_changed_is_found(monkeypatch):
    import contextlib

    from helpers.exercises import exercise

    monkeypatch.setattr(exercise, "undisturbed", contextlib.nullcontext)
    found = faults(make(draws), Proof(**GOOD))
    assert any("changes the random state" in fault for fault in found)


def test_a_missing_proof_and_a_solution_that_does_not_run_are_found():
    assert faults(make()) == ["<Exercise 2.1: halved> has no proof"]
    found = faults(make(number="2.9"), Proof(**GOOD))
    assert len(found) == 1 and "does not run: LookupError" in found[0]
    found = faults(make(number="2.4", name="total"), Proof(**GOOD))
    assert "name 'parts' is not defined" in found[0]


def test_hints_that_say_the_same_are_found():
    exercise = Exercise("2.1", "halved", half, hints=["Look."] * 2, lesson=LESSON)
    assert any("different hints" in f for f in faults(exercise, Proof(**GOOD)))


def test_a_value_is_proved_in_the_names_that_it_needs():
    def check(answer, parts):
        if number(answer) == len(parts):
            raise Wrong("That is how many there are.")
        if number(answer) != sum(parts):
            raise Wrong("Add them.")
        return "The sum."

    proof = Proof(
        right=[torch.tensor(6)],
        wrong=[(3, "how many"), (7, "Add")],
        given=([1, 2, 3],),
        namespace=lambda: {"parts": [1, 2, 3]},
    )
    assert faults(make(check, "2.4", "total"), proof) == []


def test_a_class_is_another_way_only_where_its_methods_are():
    def check(answer):
        return half(call(answer).get) if isinstance(answer, type) else half(answer)

    class Same:
        def get(self, y):
            return y / 2

    class Other:
        def get(self, x):
            return 0.5 * x

    class Double:
        def get(self, x):
            return 2 * x

    wrong = [(Double, "doubled"), (same, "Half of")]
    exercise = make(check, "2.5", "Half")
    found = faults(exercise, Proof(right=[Same], wrong=wrong))
    assert any("another way" in fault for fault in found)
    found = faults(exercise, Proof(right=[Other], wrong=wrong))
    assert not any("another way" in fault for fault in found)


def where(**changed):
    options = {"a": "Too early.", "b": "There.", "c": "Too late."}
    wanted = dict(options=options, right="b", hints=["One.", "Two."], lesson=LESSON)
    return Choice("2.2", "where", **{**wanted, **changed})


def peak():
    return Prediction(
        "2.3",
        "peak",
        unit="MiB",
        tolerance=1.2,
        explain="So it is.",
        too_low="The floor.",
        too_high="Not twice.",
        hints=["One.", "Two."],
        lesson=LESSON,
    )


def test_questions_and_predictions_prove_themselves():
    assert faults(where()) == []
    assert faults(peak()) == []
    found = faults(where(right="c"))
    assert any("the official solution should be 'correct'" in fault for fault in found)
