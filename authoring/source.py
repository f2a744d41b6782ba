"""Reads a lesson: its py:percent file becomes cells with stable ids, or is refused."""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from authoring import regions
from authoring.project import AuthoringError

EXERCISE = re.compile(r"exercise-(\d+\.\d+)$")
COMPARED = "nbval-check-output"
MARKER = "NBVAL_CHECK_OUTPUT"
TAGS = {"setup", COMPARED, "allow-stderr", "raises-exception"}


@dataclass(frozen=True)
class Cell:
    """One cell of a lesson. `solved` and `learner` differ in an exercise alone."""

    id: str
    kind: str
    tags: tuple[str, ...]
    learner: str
    solved: str

    @property
    def exercise(self) -> str | None:
        """The number of the exercise, for example 2.1, or None."""
        found = [match[1] for tag in self.tags if (match := EXERCISE.match(tag))]
        return found[0] if found else None

    @property
    def compared(self) -> bool:
        """Whether nbval compares what the cell gives with what the notebook keeps."""
        lines = [line.strip().lstrip("#").strip() for line in self.solved.splitlines()]
        return COMPARED in self.tags or MARKER in lines


@dataclass(frozen=True)
class Lesson:
    """A lesson as written: the stem of its file and its cells in order."""

    stem: str
    cells: tuple[Cell, ...]

    @cached_property
    def solutions(self) -> dict[str, str]:
        """Exercise number -> solved source of its cell."""
        return {cell.exercise: cell.solved for cell in self.cells if cell.exercise}


def read(path: Path) -> Lesson:
    """Read `path`, a file NN_name.py in py:percent.

    Raises:
        AuthoringError: the file or one of its cells breaks a rule; says which and how.
    """
    import jupytext

    text = path.read_text("utf-8")
    try:
        ast.parse(text)
        cells = _cells(jupytext.reads(text, fmt="py:percent").cells)
        _check(cells)
    except SyntaxError as error:
        line = f"line {error.lineno}: {error.msg}"
        raise AuthoringError(f"{path.name} is not valid Python, {line}") from None
    except AuthoringError as error:
        raise AuthoringError(f"{path.name}: {error}") from None
    return Lesson(path.stem, tuple(cells))


def _cells(nodes: list) -> list[Cell]:
    cells: list[Cell] = []
    seen: dict[str, int] = {}
    for node in nodes:
        source = node.source.strip("\n")
        tags = tuple(node.metadata.get("tags", []))
        first = source.strip().split("\n")[0]
        # The id follows the cell's first line: a cell added elsewhere, or an edit
        # further down, leaves it as it is, and with it a translation of the cell.
        key = f"{node.cell_type}:{first}"
        seen[key] = seen.get(key, 0) + 1
        ident = hashlib.sha1(f"{key}:{seen[key]}".encode()).hexdigest()[:12]
        try:
            both = (source, source)
            if node.cell_type == "code":
                both = regions.split(source)
            cells.append(Cell(ident, node.cell_type, tags, *both))
            _check_cell(cells[-1])
        except SyntaxError as error:
            raise AuthoringError(f"{error.msg}, in the cell {first!r}") from None
        except AuthoringError as error:
            raise AuthoringError(f"{error}, in the cell {first!r}") from None
    return cells


def _check_cell(cell: Cell) -> None:
    """Refuse what would fail late, or never and in silence."""
    unknown = [tag for tag in cell.tags if tag not in TAGS and not EXERCISE.match(tag)]
    if unknown:
        raise AuthoringError(f"unknown tag {unknown[0]!r}")
    if cell.kind != "code":
        if cell.kind != "markdown":
            raise AuthoringError(f"a cell of kind {cell.kind!r}; use code or markdown")
        return
    if "setup" in cell.tags and cell.solved:
        raise AuthoringError("the set-up cell must be empty, the builder fills it")
    if not cell.solved and "setup" not in cell.tags:
        raise AuthoringError("an empty code cell")
    if (cell.learner != cell.solved) != bool(cell.exercise):
        raise AuthoringError("a solution region and an exercise tag belong together")
    for line in cell.solved.splitlines():
        if line.lstrip().startswith(("%", "!")):
            raise AuthoringError(f"a magic ({line.strip()!r}); write Python instead")
        if re.search(rf"[^\s#].*#\s*{MARKER}", line):
            raise AuthoringError(f"{MARKER} behind code is ignored; give it a line")
    ast.parse(cell.learner)
    ast.parse(cell.solved)


def _check(cells: list[Cell]) -> None:
    """Refuse a lesson whose cells do not fit together."""
    if len({cell.id for cell in cells}) != len(cells):
        raise AuthoringError("two cells have one id; change the first line of one")
    code = [cell for cell in cells if cell.kind == "code"]
    numbers = [cell.exercise for cell in code if cell.exercise]
    for number in numbers:
        if numbers.count(number) > 1:
            raise AuthoringError(f"two cells are exercise {number}")
    if sum("setup" in cell.tags for cell in code) > 1:
        raise AuthoringError("two set-up cells")
    for cell, following in zip(code, [*code[1:], None], strict=True):
        if cell.exercise and not (following and _calls_ex(following.solved)):
            raise AuthoringError(
                f"exercise {cell.exercise} has no check: the next code cell must call "
                "it on ex, for example 'f = ex.f(f)'"
            )


def _calls_ex(source: str) -> bool:
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return any(ast.unparse(call.func).startswith("ex.") for call in calls)
