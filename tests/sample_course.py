"""A course of one small lesson in a folder of its own, for the tests of authoring."""

from __future__ import annotations

import shutil
from pathlib import Path

from authoring import build, project
from authoring.project import ROOT

SAMPLE = ROOT / "tests/fixtures/lessons/90_sample.py"
STEM = SAMPLE.stem


def make(folder: Path) -> Path:
    """Write lesson, checks, helpers' folder and pyproject.toml; returns the folder."""
    (folder / "lessons").mkdir(parents=True)
    (folder / "helpers").mkdir()
    shutil.copy(SAMPLE, folder / "lessons")
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def make_notebooks(folder: Path) -> None:
    """Write both notebooks; the solved one without executing it."""
    lesson, here = build.lessons(folder)[0], project.read(folder)
    for path, solved in ((learner(folder), False), (solution(folder), True)):
        path.parent.mkdir(parents=True, exist_ok=True)
        notebook = build.build(lesson, here, solved=solved)
        path.write_text(build._dumps(notebook), "utf-8")


def change(folder: Path, old: str, new: str) -> None:
    """Replace text that the lesson has."""
    path = folder / "lessons" / SAMPLE.name
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def learner(folder: Path) -> Path:
    return folder / f"notebooks/{STEM}.ipynb"


def solution(folder: Path) -> Path:
    return folder / f"notebooks/solutions/{STEM}.ipynb"
