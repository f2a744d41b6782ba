"""The notebooks' own test run: what is wrong in one of them is not passed over."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess

import nbformat
import pytest

from authoring import build, nbval_guard, run_notebooks
from authoring.project import ROOT, AuthoringError
from tests import sample_course
from tests.sample_course import learner, solution


def code(notebook, text):
    """The code cell that has `text`."""
    return next(c for c in notebook.cells if text in c.source)


def replace(notebook, old, new):
    cell = code(notebook, old)
    cell.source = cell.source.replace(old, new)


def opened(notebook):
    replace(notebook, "return loss / targets", "raise NotImplementedError")


def wrong(notebook):
    replace(notebook, "return loss / targets", "return loss")


def answered(notebook):
    replace(notebook, "guess = ...", "guess = 3")


def other_output(notebook):
    replace(notebook, "== guess", "!= guess")


def red_box(notebook):
    code(notebook, "noise").metadata.tags = []


def unchecked(notebook):
    replace(notebook, "guess = ex.guess(guess)", "guess = 3")


def traceback(notebook):
    replace(notebook, "divided = ex", "1 / 0; divided = ex")


def dead_kernel(notebook):
    replace(notebook, "divided = ex", "import os; os._exit(9); divided = ex")


def cells_missing(notebook):
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type != "code"]


# What is done to which notebook, and what the run must say of it.
FAULTS = [
    (opened, solution, "exercise 90.1 is not attempted, and not correct"),
    (wrong, solution, "exercise 90.1 is not yet, and not correct"),
    (answered, learner, "exercise 90.2 is correct, and not not attempted"),
    (other_output, solution, "mismatch 'text/plain'"),
    (red_box, learner, "the cell writes to stderr"),
    (unchecked, solution, "no check reached exercise 90.2"),
    (traceback, learner, "ZeroDivisionError"),
    (dead_kernel, learner, "the kernel died while it ran this cell"),
    (cells_missing, learner, "0 of 0 code cells ran"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One run over the sample's two notebooks and a broken copy for each fault."""
    folder = sample_course.make(tmp_path_factory.mktemp("run") / "course")
    os.environ.pop("COURSE_CHECKS", None)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        assert build.main([], folder) == 0
    for fault, kind, _ in FAULTS:
        notebook = copy.deepcopy(nbformat.read(kind(folder), 4))
        code(notebook, "runtime.start").source = ""  # quicker, and not what is tested
        fault(notebook)
        path = kind(folder).with_name(f"{fault.__name__}.ipynb")
        path.write_text(json.dumps(notebook), "utf-8")
    done = subprocess.run(
        run_notebooks.command(folder),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


def said_of(output, name):
    """The report's parts about one notebook."""
    parts = re.split(r"\n(?=_{3,} |FAILED |ERROR )", output)
    return "\n".join(part for part in parts if f"{name}.ipynb" in part)


@pytest.mark.parametrize(
    ("fault", "kind", "words"), FAULTS, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_notebook_that_is_not_as_it_should_be_fails(run, fault, kind, words):
    status, output = run
    assert status != 0
    assert words in said_of(output, fault.__name__)


def test_the_two_sound_notebooks_pass(run):
    _, output = run
    assert said_of(output, "90_sample") == ""


def test_a_kernel_that_does_not_start_is_tried_again():
    deaths = [RuntimeError("Kernel died before replying")] * 2

    def start(name):
        if deaths:
            raise deaths.pop()
        return name

    assert nbval_guard._start(start, name="python") == "python"
    deaths[:] = [RuntimeError("Kernel died before replying")] * 3
    with pytest.raises(RuntimeError):
        nbval_guard._start(start, name="python")


def test_no_such_notebook_is_one_sentence(tmp_path, capsys):
    folder = sample_course.make(tmp_path / "course")
    sample_course.make_notebooks(folder)
    assert run_notebooks.main(["91"], folder) == 1
    assert "begins with '91'" in capsys.readouterr().err
    with pytest.raises(AuthoringError):
        run_notebooks.command(tmp_path)


def test_make_test_runs_every_notebook_of_this_course():
    command = run_notebooks.command()
    assert str(ROOT / "notebooks") in command
    text = (ROOT / "Makefile").read_text("utf-8")
    assert "-m authoring.run_notebooks\n" in text.split("\ntest: lint")[1]
