"""The engine: states, what comes back, whose fault an error is, modes, and marks."""

from __future__ import annotations

import functools
import inspect
import json
import linecache
import random
from types import SimpleNamespace

import numpy
import pytest
import torch

from helpers.exercises import (
    CheckFailed,
    Choice,
    Exercise,
    Prediction,
    Wrong,
    call,
    marks,
    number,
    solutions,
)
from helpers.exercises.messages import CORRECT, FAULT, NOT_YET, OPEN

LESSON = "02_fake"
SOURCE = "def halved(x):\n    return x / 2"


def cell(source: str, name: str = "halved"):
    """What a learner's cell defines, compiled as IPython compiles it."""
    file = f"/tmp/ipykernel_7/{abs(hash(source))}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space = {"__name__": "__main__", "torch": torch, "functools": functools}
    exec(compile(source, file, "exec"), space)
    return space[name]


def _check(answer, *given):
    for x in (3.0, 5.0):
        got = number(call(answer, x))
        if got == 2 * x:
            raise Wrong("You doubled it.", hint=1)
        if got != x / 2:
            raise Wrong(f"Half of {x} is not {got}.")
    return "Half is half."


def make(check=_check, name="halved", number="2.1"):
    return Exercise(
        number, name, check, hints=["Nudge.", "Divide by 2."], lesson=LESSON
    )


@pytest.fixture(autouse=True)
def course(tmp_path, monkeypatch):
    """Solutions and marks of a made-up lesson; no mode."""
    table = {LESSON: {"2.1": SOURCE, "2.2": "steps = 4", "2.3": 'where = "b"'}}
    path = tmp_path / "_solutions.json"
    path.write_text(json.dumps(table))
    monkeypatch.setattr(solutions, "PATH", path)
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "marks" / "progress.json"))
    monkeypatch.delenv("COURSE_CHECKS", raising=False)
    monkeypatch.delenv("COURSE_CHECKS_LOG", raising=False)
    return path


def test_a_right_answer_comes_back_itself(capsys):
    right = cell("def halved(x):\n    return 0.5 * x")
    assert make()(right) is right
    shown = capsys.readouterr().out
    assert shown.startswith("✔ Exercise 2.1, `halved`: Correct\n")
    assert "Half is half." in shown


STUBS = {
    "raise": "def halved(x):\n    raise NotImplementedError",
    "raise with words": "def halved(x):\n    raise NotImplementedError('your turn')",
    "dots": "def halved(x):\n    ...",
    "docstring and dots": "def halved(x):\n    '''Half of x.'''\n    ...",
    "pass": "def halved(x):\n    pass",
    "value": "halved = ...",
    "partial": "def h(y, x):\n    raise NotImplementedError\n"
    "halved = functools.partial(h, 1)",
}


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
        Exercise("2.1", "halved", _check, hints=hints, lesson=LESSON)


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
        (98.5, torch.tensor(98.5), CORRECT, "within 1 %. Activations grow"),
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
