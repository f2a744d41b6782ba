"""The engine: hints, solutions, the modes of CI, its log, and marks."""

from __future__ import annotations

import inspect
import json

import pytest

from helpers.exercises import (
    CheckFailed,
    Exercise,
    marks,
)
from helpers.exercises.messages import CORRECT, OPEN
from tests.fake_lesson import LESSON, SOURCE, STUBS, cell, check, install, make


@pytest.fixture(autouse=True)
def course(tmp_path, monkeypatch):
    return install(tmp_path, monkeypatch)


def test_hints_come_one_by_one_and_the_last_one_stays(capsys):
    exercise = make()
    for _ in range(3):
        exercise.hint()
    shown = capsys.readouterr().out
    assert shown.count("1 of 2: Nudge.") == 1
    assert shown.count("2 of 2: Divide by 2.") == 2
    wrong = exercise.judge(cell("def halved(x):\n    return x + 9"))
    assert wrong.details == {"Hint 2 of 2": "Divide by 2."}


@pytest.mark.parametrize("hints", [[], ["one"], "two letters"])
def test_fewer_than_two_hints_are_refused(hints):
    with pytest.raises(ValueError, match="two or more"):
        Exercise("2.1", "halved", check, hints=hints, lesson=LESSON)


def test_the_solution_shown_is_the_exported_source(capsys):
    make().solution()
    assert SOURCE in capsys.readouterr().out
    make(number="2.8").solution()
    assert "make notebooks" in capsys.readouterr().out


def test_the_solution_handed_out_has_a_source_and_sees_the_learners_names():
    mine = cell("factor = 2\ndef halved(x):\n    raise NotImplementedError")
    used = make()(mine)
    assert inspect.getsource(used).strip() == SOURCE
    assert used.__globals__["factor"] == 2
    assert used.__globals__ is not mine.__globals__


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"2.1": "def halved(x:"}, "SyntaxError"),
        ({"2.1": "halved = missing"}, "name 'missing' is not defined"),
        ({"2.1": "other = 1"}, "does not define `halved`"),
        ({}, "no solution"),
    ],
)
def test_where_no_solution_runs_the_learner_is_told(table, words, course, capsys):
    course.write_text(json.dumps({LESSON: table}))
    assert make()(...) is ...
    shown = capsys.readouterr().out
    assert words in shown and "Run the cells above first" in shown


def test_without_any_export_the_learner_is_told(course, capsys):
    course.unlink()
    assert make()(...) is ...
    assert "make notebooks" in capsys.readouterr().out


def test_a_check_inside_an_exported_source_judges_nothing(course, capsys):
    exercise = make(name="steps", number="2.2")
    course.write_text(json.dumps({LESSON: {"2.2": "steps = check(4)"}}))
    assert exercise.solve({"check": exercise}) == 4
    assert capsys.readouterr().out == ""


MODES = [
    ("solved", SOURCE, True),
    ("solved", STUBS["raise"], False),
    ("solved", "def halved(x):\n    return x", False),
    ("unattempted", STUBS["raise"], True),
    ("unattempted", SOURCE, False),
    ("sovled", SOURCE, False),  # codespell:ignore sovled
]


@pytest.mark.parametrize(("mode", "source", "passes"), MODES)
def test_modes_demand_a_state_and_keep_no_marks(mode, source, passes, monkeypatch):
    monkeypatch.setenv("COURSE_CHECKS", mode)
    if passes:
        make()(cell(source))
    else:
        with pytest.raises(CheckFailed):
            make()(cell(source))
    assert not marks.path().exists()


def test_the_log_has_a_line_a_check(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_CHECKS_LOG", str(tmp_path / "log"))
    make()(cell(SOURCE))
    make()(...)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert lines == [
        {"lesson": LESSON, "exercise": "2.1", "state": CORRECT},
        {"lesson": LESSON, "exercise": "2.1", "state": OPEN},
    ]


def test_a_solved_exercise_is_marked(monkeypatch):
    make()(...)
    assert marks.solved() == {}
    make()(cell(SOURCE))
    assert marks.solved() == {LESSON: ["2.1"]}
