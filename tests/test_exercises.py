"""The engine: states, what comes back, and whose fault an error is."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace

import numpy
import pytest
import torch

from helpers.exercises import (
    CheckFailed,
    Wrong,
    call,
    solutions,
)
from helpers.exercises.messages import CORRECT, FAULT, NOT_YET, OPEN
from tests.fake_lesson import LESSON, SOURCE, STUBS, cell, install, make


@pytest.fixture(autouse=True)
def course(tmp_path, monkeypatch):
    return install(tmp_path, monkeypatch)


def test_a_right_answer_comes_back_itself(capsys):
    right = cell("def halved(x):\n    return 0.5 * x")
    assert make()(right) is right
    shown = capsys.readouterr().out
    assert shown.startswith("✔ Exercise 2.1, `halved`: Correct\n")
    assert "Half is half." in shown


@pytest.mark.parametrize("stub", STUBS.values(), ids=STUBS)
def test_a_stub_is_not_attempted_and_the_course_goes_on(stub, capsys):
    exercise = make()
    used = exercise(cell(stub))
    assert used(10) == 5
    shown = capsys.readouterr().out
    assert "Not attempted" in shown and "own solution" in shown and "Nudge." in shown


def test_a_wrong_answer_gets_its_reason_its_hint_and_the_courses_solution(capsys):
    used = make()(cell("def halved(x):\n    return 2 * x"))
    shown = capsys.readouterr().out
    assert "✘" in shown and "Not yet" in shown
    assert "You doubled it." in shown and "Hint 2 of 2: Divide by 2." in shown
    assert used(10) == 5


def test_the_course_solution_handed_in_again_is_no_pass(capsys):
    exercise = make()
    used = exercise(cell(STUBS["raise"]))
    message = exercise.judge(used)
    assert message.state == OPEN and "course's own solution" in str(message)
    assert exercise(used)(10) == 5
    assert exercise.judge(cell(SOURCE)).state == CORRECT, "typed by the learner: right"


@pytest.mark.parametrize("source", ["steps = 4", "steps = 4.0", "steps = 'four'"])
def test_a_small_value_carries_the_mark_and_the_learners_own_does_not(source, course):
    course.write_text(json.dumps({LESSON: {"2.2": source}}))
    exercise = make(lambda answer: "Yes.", "steps", "2.2")
    used = exercise(...)
    mine = cell(source, "steps")
    assert used == mine and isinstance(used, type(mine)) and repr(used) == repr(mine)
    assert exercise.judge(used).state == OPEN
    assert exercise.judge(mine).state == CORRECT
    assert make(lambda _: "Yes.", number="2.9").judge(used).state == CORRECT


@pytest.mark.parametrize(
    ("source", "remembered"),
    [
        ("steps = [4, 4]", True),
        ("steps = torch.ones(2)", True),
        ("steps = torch.nn.Linear(1, 1)", True),
        ("steps = True", False),
        ("steps = torch.float16", False),
        ("steps = torch.nn.Linear", False),
        ("class steps: pass", True),
    ],
)
def test_an_object_is_remembered_where_it_can_only_be_the_courses(
    source, remembered, course, monkeypatch
):
    course.write_text(json.dumps({LESSON: {"2.2": "__name__ = 'x'\n" + source}}))
    monkeypatch.setattr(
        solutions, "notebook_names", lambda: {"torch": torch, "__name__": "x"}
    )
    exercise = make(lambda answer: "Yes.", "steps", "2.2")
    used = exercise(...)
    assert exercise.judge(used).state == (OPEN if remembered else CORRECT)
    assert not hasattr(torch.nn.Linear, "_course_solution_of")


ERRORS = {
    "in the cell": ("def halved(x):\n    y = x\n    return y.nothing", "line 3"),
    "other signature": ("def halved(x, y):\n    return x", "TypeError"),
    "exit": ("def halved(x):\n    raise SystemExit(1)", "SystemExit"),
    "torch cannot": (
        "def halved(x):\n    return torch.nn.Module()(x)",
        "NotImplementedError",
    ),
    "in torch": ("def halved(x):\n    return torch.ones(2) @ torch.ones(3)", "line 2"),
    "a number": ("halved = 3", "A function is wanted"),
    "endless": ("def halved(x):\n    while True:\n        yield x", "does not end"),
    "None": ("halved = None", "is None"),
}


@pytest.mark.parametrize(("source", "words"), ERRORS.values(), ids=ERRORS)
def test_an_error_in_the_learners_code_is_theirs(source, words):
    message = make().judge(cell(source))
    assert message.state == NOT_YET and words in str(message), message


def test_the_line_of_the_cell_is_shown_and_the_error_starts_there():
    message = make().judge(cell(ERRORS["in the cell"][0]))
    first = message.lines[0]
    assert first == (
        "Your code stopped with AttributeError in line 3 of your cell: "
        "`return y.nothing`"
    )
    assert "judging.py" not in message.error and "halved" in message.error
    assert "'float' object has no attribute" in message.lines[1]


def test_an_error_where_the_check_runs_the_answer_unguarded_is_theirs_too():
    exercise = make(lambda answer: str(answer(1)))
    message = exercise.judge(cell(ERRORS["in the cell"][0]))
    assert message.state == NOT_YET and "line 3" in str(message)
    assert exercise.judge(cell(STUBS["raise"])).state == OPEN
    source = "class halved:\n    def __init__(self, x):\n        self.x = x.nothing"
    assert "line 3" in str(exercise.judge(cell(source)))


@pytest.mark.parametrize(
    "check", [lambda a: 1 / 0, lambda a: _raise(Wrong("No.", hint=7))]
)
def test_an_error_in_the_check_is_the_courses(check, capsys, monkeypatch):
    exercise = make(check)
    used = exercise(cell(SOURCE))
    shown = capsys.readouterr().out
    assert "This check is at fault, not your answer" in shown
    assert "Not yet" not in shown and used(10) == 5
    assert exercise.judge(cell(SOURCE)).state == FAULT
    monkeypatch.setenv("COURSE_CHECKS", "solved")
    with pytest.raises(CheckFailed, match="fault"):
        exercise(cell(SOURCE))


def _raise(error):
    raise error


def test_a_reason_given_inside_the_learners_code_passes_through():
    def refuse(*_):
        raise Wrong("You stepped before backward.")

    def check(answer):
        return str(call(answer, SimpleNamespace(step=refuse)))

    message = make(check).judge(cell("def halved(o):\n    o.step()"))
    assert message.lines == ["You stepped before backward."]


def test_an_interrupt_stays_an_interrupt():
    with pytest.raises(KeyboardInterrupt):
        make().judge(cell("def halved(x):\n    raise KeyboardInterrupt"))


def test_a_generator_comes_back_as_a_list():
    seen = []
    exercise = make(lambda answer: str(seen.append(call(answer, 3))))
    exercise.judge(cell("def halved(x):\n    yield x\n    yield 2 * x"))
    assert seen == [[3, 6]]


def test_given_values_reach_the_check():
    exercise = make(lambda answer, low, high: f"{low} and {high}")
    assert exercise.judge(3, 1, 2).lines == ["1 and 2"]


def test_everything_random_and_every_switch_is_as_before():
    def check(answer):
        torch.manual_seed(1)
        numpy.random.seed(1)
        random.seed(1)
        assert torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        raise Wrong("No.")

    def draw():
        return torch.rand(1).item(), numpy.random.rand(), random.random()

    def seed():
        torch.manual_seed(5)
        numpy.random.seed(5)
        random.seed(5)

    seed()
    plain = draw()
    seed()
    with torch.no_grad():
        make(check)(3)
        assert not torch.is_grad_enabled()
    assert torch.get_default_dtype() is torch.float32 and torch.is_grad_enabled()
    assert draw() == plain


def test_a_solution_that_draws_leaves_the_random_state(course):
    course.write_text(json.dumps({LESSON: {"2.2": "import torch\nx = torch.rand(2)"}}))
    torch.manual_seed(5)
    plain = torch.rand(1)
    torch.manual_seed(5)
    assert make(name="x", number="2.2")(...).shape == (2,)
    assert torch.rand(1) == plain
