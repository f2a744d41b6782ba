"""Measures the style of every lesson and names what breaks a rule.

python -m authoring.lint        exits 1 where a rule is broken
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from authoring import rules
from authoring.build import lessons
from authoring.project import ROOT, AuthoringError
from authoring.source import Lesson
from authoring.style import LIMITS, Figures, measure

SPELLED = ("lessons", "helpers", "authoring", "data", "README.md")


def lesson_problems(lesson: Lesson, root: Path = ROOT) -> list[str]:
    """What breaks a rule in the prose and the figures of one lesson."""
    notebooks = root / "notebooks"
    prose = [cell.solved for cell in lesson.cells if cell.kind == "markdown"]
    found = rules.headings(prose)
    for text in prose:
        found += [*rules.numbers(text), *rules.wording(text), *rules.images(text)]
        found += rules.links(text, [notebooks, notebooks / "solutions"])
        found += rules.details(text)
    for cell in lesson.cells:
        if cell.kind == "code":
            found += rules.figures(cell.solved)
    return found


def readme_problems(root: Path = ROOT) -> list[str]:
    """The same of the README; its numbers are written by a command."""
    text = (root / "README.md").read_text("utf-8")
    found = rules.headings([text]) + rules.wording(text) + rules.images(text)
    return found + rules.links(text, [root]) + rules.details(text)


def spelling(root: Path = ROOT) -> list[str]:
    """What codespell takes for a slip, a line each."""
    paths = [name for name in SPELLED if (root / name).exists()]
    command = [sys.executable, "-m", "codespell_lib", *paths]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True)
    return (run.stdout + run.stderr).splitlines() if run.returncode else []


def table(figures: list[Figures]) -> str:
    """The figures of each lesson, a row each, below them their limits."""
    head = ["lesson", "cells", "sentences", *LIMITS]
    rows = [
        [f.stem, f.cells, f.sentences, *(f"{f.values[name]:g}" for name in LIMITS)]
        for f in figures
    ]
    rows.append(["at most", "", "", *LIMITS.values()])
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            f"{cell:<{width}}" if i == 0 else f"{cell:>{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [head, *rows]
    )


def main(root: Path = ROOT) -> int:
    """Print the figures and what is wrong; returns the exit status."""
    try:
        course = lessons(root)
    except AuthoringError as error:
        print(error)
        return 1
    figures = [measure(lesson) for lesson in course]
    print(table(figures))
    found = [f"README.md: {text}" for text in readme_problems(root)] + spelling(root)
    for lesson, figure in zip(course, figures, strict=True):
        both = figure.problems() + lesson_problems(lesson, root)
        found += [f"{lesson.stem}: {text}" for text in both]
    print("\n".join(found) or "no rule is broken")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
