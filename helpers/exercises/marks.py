"""Which exercises are solved, kept in one small file of the learner's own."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from html import escape
from pathlib import Path

from helpers.exercises import solutions
from helpers.exercises.messages import CORRECT, OPEN, SIGNS, show

FOLDER = "gradient-accumulation-course"


def path() -> Path:
    """Where the marks are kept: COURSE_PROGRESS, else the user's data folder."""
    if os.environ.get("COURSE_PROGRESS"):
        return Path(os.environ["COURSE_PROGRESS"])
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(os.path.expanduser(base)) / FOLDER / "progress.json"


def solved() -> dict[str, list[str]]:
    """The solved exercises, {lesson: [numbers]}; empty where no file can be read."""
    try:
        kept = json.loads(path().read_text(encoding="utf-8"))
        return {
            str(lesson): sorted({str(number) for number in numbers})
            for lesson, numbers in kept.items()
            if isinstance(numbers, list)
        }
    except (OSError, ValueError, AttributeError):
        return {}


def record(lesson: str, number: str) -> None:
    """Mark an exercise as solved. A file that cannot be written costs only the mark."""
    kept = solved()
    if number in kept.get(lesson, []):
        return
    kept[lesson] = sorted([*kept.get(lesson, []), number])
    with contextlib.suppress(OSError):
        _write_whole(path(), json.dumps(kept, indent=1, sort_keys=True) + "\n")


def progress() -> None:
    """Show what is solved, lesson by lesson, as a table."""
    show(Table(solutions.load(), solved()))


class Table:
    """The solved and the open exercises of each lesson, as HTML and as text."""

    def __init__(
        self, exercises: dict[str, dict[str, str]], done: dict[str, list[str]]
    ) -> None:
        self.rows = [
            (lesson.replace("_", " "), self._numbers(numbers, done.get(lesson, [])))
            for lesson, numbers in sorted(exercises.items())
            if numbers
        ]

    @staticmethod
    def _numbers(numbers: dict[str, str], done: list[str]) -> list[tuple[str, bool]]:
        in_order = sorted(numbers, key=lambda n: [int(part) for part in n.split(".")])
        return [(number, number in done) for number in in_order]

    def _cells(self) -> list[tuple[str, str, str]]:
        signs = {True: SIGNS[CORRECT], False: SIGNS[OPEN]}
        return [
            (
                lesson,
                f"{sum(done for _, done in marks)} of {len(marks)}",
                "  ".join(f"{signs[done]} {number}" for number, done in marks),
            )
            for lesson, marks in self.rows
        ]

    def __str__(self) -> str:
        if not self.rows:
            return "There are no exercises yet."
        rows = [("Lesson", "Solved", "Exercises"), *self._cells()]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        return "\n".join(
            f"{row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}" for row in rows
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{self}</p>"
        heads = ("Lesson", "Solved", "Exercises (✔ solved, ○ open)")
        head = "".join(_cell("th", text, "col") for text in heads)
        rows = "".join(
            "<tr>"
            + _cell("th", lesson, "row")
            + _cell("td", count)
            + _cell("td", numbers)
            + "</tr>"
            for lesson, count, numbers in self._cells()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cell(tag: str, text: str, scope: str = "") -> str:
    scoped = f" scope='{scope}'" if scope else ""
    inner = escape(text).replace("  ", "&emsp;")
    return f"<{tag}{scoped} style='text-align:left'>{inner}</{tag}>"


def _write_whole(target: Path, text: str) -> None:
    """Write `text` beside `target`, then put it in its place: all of it or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, target)
    except OSError:
        os.unlink(name)
        raise
