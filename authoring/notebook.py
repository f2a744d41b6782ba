"""A lesson's cells become its two notebooks: the learner's and the solved one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from authoring.project import Project
from authoring.setup_cell import buttons, setup_cell
from authoring.source import Cell, Lesson

if TYPE_CHECKING:
    from nbformat import NotebookNode

METADATA = {
    "accelerator": "GPU",
    "colab": {"gpuType": "T4", "provenance": []},
    "kernelspec": {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}
# For the linter alone: they say why a number may stand in the prose.
MARKS = re.compile(r"[ \t]*<!-- (?:cited|definition) -->")


def build(
    lesson: Lesson,
    project: Project,
    *,
    solved: bool = False,
    prose: Mapping[str, str] | None = None,
) -> NotebookNode:
    """Make one notebook, not executed.

    Args:
        lesson: what `source.read` gives.
        project: where the course lives.
        solved: the solutions in place of the stubs.
        prose: a translation, Markdown cell id -> text; cells it lacks stay as they
            are, and code is the same in every language. See `translation_gaps`.
    """
    from nbformat import v4, validate

    cells = []
    for cell in lesson.cells:
        new = v4.new_code_cell if cell.kind == "code" else v4.new_markdown_cell
        text = _text(cell, lesson, project, solved, prose or {})
        metadata = {"tags": list(cell.tags)} if cell.tags else {}
        cells.append(new(text, id=cell.id, metadata=metadata))
    notebook = v4.new_notebook(cells=cells, metadata=METADATA, nbformat_minor=5)
    validate(notebook)
    return notebook


def translation_gaps(
    lesson: Lesson, prose: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Ids of Markdown cells that `prose` lacks, and ids in it that the lesson lacks."""
    ids = [cell.id for cell in lesson.cells if cell.kind == "markdown"]
    return [i for i in ids if i not in prose], [i for i in prose if i not in ids]


def _text(
    cell: Cell,
    lesson: Lesson,
    project: Project,
    solved: bool,
    prose: Mapping[str, str],
) -> str:
    if cell.kind == "code":
        if "setup" in cell.tags:
            return setup_cell(project)
        return cell.solved if solved else cell.learner
    text = MARKS.sub("", prose.get(cell.id, cell.solved))
    text = text.replace("{{buttons}}", buttons(project, lesson.stem))
    # Solved notebooks lie one folder deeper than the links are written for.
    return text.replace("](../", "](../../") if solved else text
