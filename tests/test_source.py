"""A lesson's source: cells with stable ids, solution regions, translations."""

from __future__ import annotations

import pytest

from authoring import project, regions
from authoring.build import lessons
from authoring.notebook import build, translation_gaps
from authoring.project import ROOT, AuthoringError
from authoring.source import read
from tests.sample_course import SAMPLE

TEXT = SAMPLE.read_text("utf-8")
TITLE = "# %% [markdown]\n# # T\n\n"
CHECK = "\n# %%\nex.f(f)\n"
EXERCISE = """\
# %% tags=["exercise-9.1"]
def f():
    ### BEGIN SOLUTION
    return 1
    ### END SOLUTION

"""


def lesson(tmp_path, text, name="90_sample.py"):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return read(path)


def test_a_region_becomes_a_stub_at_its_own_indent():
    learner, solved = regions.split(
        "def f():\n    a = 1\n    ### BEGIN SOLUTION\n    a\n    ### END SOLUTION"
    )
    assert solved == "def f():\n    a = 1\n    a"
    assert learner == (
        "def f():\n    a = 1\n    # Your code here\n    raise NotImplementedError"
    )


def test_a_stub_of_its_own_is_what_the_learner_sees():
    learner, solved = regions.split(
        "### BEGIN SOLUTION\n# stub: a = ...\n# stub:\n# stub: b = ...\n"
        "a = 1\n### END SOLUTION\nc = 2"
    )
    assert learner == "a = ...\n\nb = ...\nc = 2"
    assert solved == "a = 1\nc = 2"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("### BEGIN SOLUTION\n# stub: a\na", "'### END SOLUTION' is missing"),
        ("a\n### END SOLUTION", "unbalanced"),
        ("### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION", "unbalanced"),
        ("# stub: a = ...", "a stub outside"),
        ("### BEGIN SOLUTION\na = 1\n### END SOLUTION", "needs a stub"),
    ],
)
def test_a_region_that_is_not_whole_is_refused(source, words):
    with pytest.raises(AuthoringError, match=words):
        regions.split(source)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TITLE + "# %%\nx = (\n", "not valid Python, line 5"),
        (TITLE + "# %%\n%pip install x\n", "not valid Python"),
        (TITLE + "# %%\n# %time x\n", "a magic"),
        (TITLE + '# %% tags=["exercize-9.1"]\nx = 1\n', "unknown tag 'exercize-9.1'"),
        (TITLE + '# %% tags=["setup"]\nx = 1\n', "must be empty"),
        (TITLE + '# %% tags=["setup"]\n\n# %% tags=["setup"]\n', "two set-up cells"),
        (TITLE + "# %%\n\n# %%\nx = 1\n", "an empty code cell"),
        (TITLE + "# %% [raw]\n# x\n", "use code or markdown"),
        (TITLE + "# %%\nx = 1  # NBVAL_CHECK_OUTPUT\n", "give it a line"),
        (TITLE + '# %% tags=["exercise-9.1"]\nf = 1\n' + CHECK, "belong together"),
        (TITLE + EXERCISE.replace('"exercise-9.1"', "") + CHECK, "belong together"),
        (TITLE + EXERCISE, "exercise 9.1 has no check"),
        (TITLE + EXERCISE + "# %%\nf()\n" + CHECK, "exercise 9.1 has no check"),
        (TITLE + 2 * (EXERCISE + CHECK), "two cells are exercise 9.1"),
    ],
)
def test_a_lesson_that_would_fail_late_is_refused(tmp_path, text, words):
    with pytest.raises(AuthoringError, match=words) as caught:
        lesson(tmp_path, text)
    assert str(caught.value).startswith("90_sample.py")


def test_the_id_of_a_cell_outlives_edits_below_its_first_line(tmp_path):
    before = {cell.id: cell for cell in read(SAMPLE).cells}
    text = TEXT.replace("return loss / targets", "return loss * (1 / targets)")
    text = text.replace(
        "# ## Divide", "# ## New\n#\n# Text.\n\n# %%\n7\n\n# %% [markdown]\n# ## Divide"
    )
    after = {cell.id for cell in lesson(tmp_path, text).cells}
    assert set(before) < after
    assert len(after) == len(before) + 2


def test_equal_first_lines_get_ids_of_their_own(tmp_path):
    cells = lesson(tmp_path, TITLE + "# %%\n7\n\n# %%\n7\n").cells
    assert len({cell.id for cell in cells}) == 3


def test_both_notebooks_have_the_same_ids():
    here = project.read(ROOT)
    for one in lessons():
        learner, solved = build(one, here), build(one, here, solved=True)
        assert [c.id for c in learner.cells] == [c.id for c in solved.cells]


def test_a_translation_changes_prose_and_no_code():
    one, here = read(SAMPLE), project.read(ROOT)
    title, divide = (cell for cell in one.cells if cell.kind == "markdown")
    french = {title.id: "# Une leçon\n\n{{buttons}}", "gone": "x"}
    notebook = build(one, here, prose=french)
    original = build(one, here)
    assert notebook.cells[0].source.startswith("# Une leçon\n\n[Open this lesson")
    assert notebook.cells[1:] == original.cells[1:]
    assert translation_gaps(one, french) == ([divide.id], ["gone"])


def test_links_of_a_solved_notebook_go_one_folder_further_up():
    one, here = read(SAMPLE), project.read(ROOT)
    assert "](../tests/" in build(one, here).cells[0].source
    assert "](../../tests/" in build(one, here, solved=True).cells[0].source


def test_the_marks_of_the_linter_are_not_shown():
    notebook = build(read(SAMPLE), project.read(ROOT))
    assert not any("<!--" in cell.source for cell in notebook.cells)
