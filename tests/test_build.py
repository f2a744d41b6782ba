"""Lessons become notebooks; what is not in step, or fails, is named."""

from __future__ import annotations

import json

import nbformat
import pytest

from authoring import build, execute, project
from authoring.project import ROOT, AuthoringError
from tests import sample_course
from tests.sample_course import change, learner, solution


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sample course after one build, which executes its solved notebook."""
    folder = sample_course.make(tmp_path_factory.mktemp("built"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        assert build.main([], folder) == 0
    return folder


@pytest.fixture
def course(built, tmp_path, monkeypatch):
    """A copy of it, to change."""
    import shutil

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return shutil.copytree(built, tmp_path / "course")


@pytest.fixture
def no_kernel(monkeypatch):
    """No notebook may be executed; gives those that would have been."""
    asked = []
    monkeypatch.setattr(build, "execute", lambda notebook, _: asked.append(notebook))
    return asked


def cells(path, kind="code"):
    return [c for c in nbformat.read(path, 4).cells if c.cell_type == kind]


def test_the_notebooks_of_this_course_are_in_step():
    assert build.stale() == []


def test_the_learner_gets_stubs_and_no_outputs(built):
    code = cells(learner(built))
    texts = [cell.source for cell in code]
    assert any("raise NotImplementedError" in text for text in texts)
    assert "guess = ...  # a number" in texts
    assert not any("SOLUTION" in t or "stub:" in t or "guess = 3" in t for t in texts)
    assert all(c.outputs == [] and c.execution_count is None for c in code)


def test_the_solved_one_was_executed_and_keeps_what_a_reader_should_see(built):
    code = cells(solution(built))
    assert "guess = 3" in [cell.source for cell in code]
    assert all(cell.execution_count for cell in code)
    drawn = [
        o for cell in code for o in cell.outputs if "text/html" in o.get("data", {})
    ]
    assert any("<b>drawn</b>" in o["data"]["text/html"] for o in drawn)
    assert not [o for c in code for o in c.outputs if o.get("name") == "stderr"]
    assert code[-1].outputs[0]["data"]["text/plain"] == "True"


def test_the_solution_that_an_exercise_shows_is_the_executed_source(built):
    table = json.loads((built / "helpers/_solutions.json").read_text("utf-8"))
    executed = [cell.source for cell in cells(solution(built))]
    assert set(table["90_sample"]) == {"90.1", "90.2"}
    assert all(text in executed for text in table["90_sample"].values())


def test_a_second_build_writes_and_executes_nothing(course, no_kernel, capsys):
    before = {p: p.stat().st_mtime_ns for p in course.rglob("*.ipynb")}
    assert build.main([], course) == 0
    assert "nothing, all is in step" in capsys.readouterr().out
    assert {p: p.stat().st_mtime_ns for p in course.rglob("*.ipynb")} == before
    assert no_kernel == []


def test_outputs_executes_again(course, no_kernel):
    build.main(["--outputs"], course)
    assert len(no_kernel) == 1


def test_a_change_in_prose_keeps_the_outputs(course, no_kernel):
    change(course, "You will write one function.", "You write one function.")
    assert build.stale(course) != []
    assert build.main([], course) == 0
    assert no_kernel == []
    assert build.stale(course) == []
    assert "You write one" in cells(solution(course), "markdown")[0].source


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("You will write", "You write", "notebooks/90_sample.ipynb is not what"),
        ("return loss / targets", "return loss * 1 / targets", "helpers/_solutions"),
        ("return loss / targets", "return loss * 1 / targets", "was not executed"),
        ("divided(6, 2) == guess", "divided(9, 3) == guess", "was not executed"),
    ],
)
def test_a_change_without_a_build_fails_the_check(course, old, new, named, capsys):
    change(course, old, new)
    assert any(named in text for text in build.stale(course))
    assert build.main(["--check"], course) == 1
    assert "Run make notebooks." in capsys.readouterr().out


def test_a_hand_made_change_to_a_notebook_is_stale(course):
    for path in (learner(course), solution(course)):
        path.write_text(path.read_text("utf-8").replace("divided once", "halved"))
    assert len(build.stale(course)) == 2


def test_a_compared_cell_without_an_output_is_stale(course):
    notebook = nbformat.read(solution(course), 4)
    notebook.cells[-1].outputs = []
    nbformat.write(notebook, solution(course))
    assert any("a cell to compare has no output" in t for t in build.stale(course))


def test_a_notebook_without_a_lesson_is_stale(course):
    (course / "notebooks/91_gone.ipynb").write_text(learner(course).read_text("utf-8"))
    assert build.stale(course) == ["notebooks/91_gone.ipynb has no lesson"]


def test_a_solution_that_its_check_refuses_is_not_written(course, capsys):
    before = solution(course).read_bytes()
    change(course, "return loss / targets", "return loss")
    assert build.main([], course) == 1
    assert "exercise 90.1 is not yet, and not correct" in capsys.readouterr().err
    assert solution(course).read_bytes() == before
    assert build.main(["--check"], course) == 1


def test_a_cell_without_end_is_stopped(course, monkeypatch, capsys):
    monkeypatch.setattr(execute, "CELL_TIMEOUT", 3)
    change(course, "divided(6, 2) == guess", "while True: pass")
    assert build.main([], course) == 1
    assert "did not end" in capsys.readouterr().err


def test_a_solved_notebook_over_its_size_is_refused(course, monkeypatch):
    monkeypatch.setattr(build, "MAX_BYTES", 1000)
    lesson, here = build.lessons(course)[0], project.read(course)
    with pytest.raises(AuthoringError, match=r"bytes with its outputs, and 1,000"):
        build.write_lesson(lesson, here, course)


def test_buttons_and_set_up_cell_take_the_address_from_pyproject(course):
    path = course / "pyproject.toml"
    here = project.read(course)
    text = path.read_text("utf-8").replace(here.repository, "https://github.com/ann/b")
    path.write_text(text, "utf-8")
    sample_course.make_notebooks(course)
    for notebook in (learner(course), solution(course)):
        first = cells(notebook, "markdown")[0].source
        assert f"github/ann/b/blob/{here.tag}/notebooks/90_sample.ipynb" in first
        assert f"mybinder.org/v2/gh/ann/b/{here.tag}?" in first
        assert f"git+https://github.com/ann/b@{here.tag}" in cells(notebook)[0].source


def test_an_address_that_colab_cannot_open_is_refused(course):
    path = course / "pyproject.toml"
    text = path.read_text("utf-8").replace("https://github.com/", "https://x.org/")
    path.write_text(text, "utf-8")
    with pytest.raises(AuthoringError, match="need https://github"):
        project.read(course)


def test_every_set_up_cell_is_the_same_and_has_at_most_six_lines():
    found = [path for path in (ROOT / "notebooks").rglob("[0-9]*.ipynb")]
    first = {cells(path)[0].source for path in found}
    assert len(found) == 2 * len(build.lessons())
    assert len(first) == 1
    assert len(first.pop().splitlines()) <= 6
