"""Makes the notebooks from the lessons.

python -m authoring.build                    write what is stale
python -m authoring.build lessons/02_x.py    that lesson alone
python -m authoring.build --outputs          and execute every solved notebook again
python -m authoring.build --check            write nothing; name what is stale, exit 1
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from authoring import project as settings
from authoring.execute import execute
from authoring.notebook import build
from authoring.project import ROOT, AuthoringError, Project
from authoring.source import Lesson, read

MAX_BYTES = 400_000  # GitHub shows a notebook of this size without delay


def lessons(root: Path = ROOT) -> list[Lesson]:
    """Every lesson of the course, in order."""
    return [read(path) for path in sorted((root / "lessons").glob("[0-9]*.py"))]


def solutions_text(course: Sequence[Lesson]) -> str:
    """The text of helpers/_solutions.json: lesson -> exercise -> solved source."""
    table = {lesson.stem: lesson.solutions for lesson in course}
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"


def write_lesson(
    lesson: Lesson, project: Project, root: Path = ROOT, *, again: bool = False
) -> list[str]:
    """Write the lesson's two notebooks; execute the solved one where its code changed.

    Args:
        again: execute the solved notebook in any case.

    Returns:
        The paths written, relative to `root`.

    Raises:
        AuthoringError: a cell failed, or the solved notebook is too large. The solved
            one that lies there stays as it was.
    """
    learner = root / "notebooks" / f"{lesson.stem}.ipynb"
    solved = learner.parent / "solutions" / learner.name
    written = _write(learner, _dumps(build(lesson, project)), root)
    notebook = build(lesson, project, solved=True)
    if again or not _keep_outputs(notebook, solved):
        solved.parent.mkdir(exist_ok=True)
        try:
            execute(notebook, solved.parent)
        except AuthoringError as error:
            raise AuthoringError(f"{lesson.stem}, solved: {error}") from None
    text = _dumps(notebook)
    size = len(text.encode())
    if size > MAX_BYTES:
        raise AuthoringError(
            f"{lesson.stem}, solved: {size:,} bytes with its outputs, and {MAX_BYTES:,}"
            " are allowed. Make figures smaller or fewer, or print less."
        )
    return written + _write(solved, text, root)


def stale(root: Path = ROOT) -> list[str]:
    """What under `root` is not what its lessons give, a sentence each.

    Outputs are not compared here (nbval does that for the marked cells), but every
    solved notebook has to have been executed.
    """
    project, course = settings.read(root), lessons(root)
    found = []
    expected = {root / "helpers/_solutions.json": solutions_text(course)}
    for lesson in course:
        path = root / "notebooks" / f"{lesson.stem}.ipynb"
        expected[path] = _dumps(build(lesson, project))
        path = path.parent / "solutions" / path.name
        notebook = build(lesson, project, solved=True)
        marked = {cell.id for cell in lesson.cells if cell.compared}
        if not _keep_outputs(notebook, path):
            found.append(f"{_name(path, root)} was not executed with this source")
        elif any(c.id in marked and not c.outputs for c in notebook.cells):
            found.append(f"{_name(path, root)}: a cell to compare has no output")
        expected[path] = _dumps(notebook)
    for path, text in expected.items():
        if not path.exists() or path.read_text("utf-8") != text:
            found.append(f"{_name(path, root)} is not what its lesson gives")
    for path in sorted((root / "notebooks").rglob("[0-9][0-9]_*.ipynb")):
        if path not in expected and ".ipynb_checkpoints" not in path.parts:
            found.append(f"{_name(path, root)} has no lesson")
    return found


def _keep_outputs(notebook, path: Path) -> bool:
    """Copy the outputs of the notebook at `path` if it ran with this code."""
    import nbformat

    if not path.exists():
        return False
    kept = [c for c in nbformat.read(path, 4).cells if c.cell_type == "code"]
    code = [c for c in notebook.cells if c.cell_type == "code"]
    if [c.source for c in kept] != [c.source for c in code]:
        return False
    if any(cell.execution_count is None for cell in kept):
        return False
    for cell, old in zip(code, kept, strict=True):
        cell.outputs, cell.execution_count = old.outputs, old.execution_count
    return True


def _dumps(notebook) -> str:
    import nbformat

    return nbformat.writes(notebook) + "\n"


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _write(path: Path, text: str, root: Path) -> list[str]:
    if path.exists() and path.read_text("utf-8") == text:
        return []
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())  # the same bytes on Windows
    return [_name(path, root)]


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m authoring.build")
    parser.add_argument("lessons", nargs="*", type=Path, help="these files alone")
    parser.add_argument("--outputs", action="store_true", help="execute all again")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            found = stale(root)
            print("\n".join([*found, "Run make notebooks."] if found else ["in step"]))
            return bool(found)
        project, course = settings.read(root), lessons(root)
        # First, for the kernels that execute the lessons read it.
        text = solutions_text(course)
        written = _write(root / "helpers/_solutions.json", text, root)
        wanted = {path.stem for path in options.lessons}
        for lesson in course:
            if not wanted or lesson.stem in wanted:
                written += write_lesson(lesson, project, root, again=options.outputs)
    except AuthoringError as error:
        print(error, file=sys.stderr)
        return 1
    print("wrote " + (", ".join(written) or "nothing, all is in step"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
