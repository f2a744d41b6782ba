"""Where a learner's marks are kept, and what losing them costs."""

from __future__ import annotations

import json
import os
import stat
import sys

import pytest

from helpers.exercises import (
    marks,
    progress,
    solutions,
)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    table = {"01_limit": {"1.2": "", "1.10": "", "1.1": ""}, "02_by_hand": {"2.1": ""}}
    path = tmp_path / "_solutions.json"
    path.write_text(json.dumps(table))
    monkeypatch.setattr(solutions, "PATH", path)
    monkeypatch.setenv(
        "COURSE_PROGRESS", str(tmp_path / "new" / "folder" / "marks.json")
    )
    return tmp_path / "new" / "folder" / "marks.json"


def test_progress_shows_lesson_by_lesson_what_is_solved(kept, capsys):
    marks.record("01_limit", "1.10")
    marks.record("01_limit", "1.10")
    marks.record("01_limit", "1.1")
    progress()
    assert capsys.readouterr().out.splitlines() == [
        "Lesson      Solved  Exercises",
        "01 limit    2 of 3  ✔ 1.1  ○ 1.2  ✔ 1.10",
        "02 by hand  0 of 1  ○ 2.1",
    ]
    html = marks.Table(solutions.load(), marks.solved())._repr_html_()
    assert "<th scope='row'" in html and "2 of 3" in html and "✔ 1.10" in html
    assert os.listdir(kept.parent) == ["marks.json"], "no temporary file is left"


def test_without_exercises_progress_says_so(kept, capsys):
    solutions.PATH.write_text("{}")
    progress()
    assert "no exercises" in capsys.readouterr().out
    assert "no exercises" in marks.Table({}, {})._repr_html_()


@pytest.mark.parametrize("broken", ["", "{", "[]", "3", '{"01_limit": 3}', "\xff\x00"])
def test_a_broken_file_costs_only_the_marks(kept, broken):
    kept.parent.mkdir(parents=True)
    kept.write_bytes(broken.encode("latin-1"))
    assert marks.solved() == {}
    marks.record("01_limit", "1.1")
    assert marks.solved() == {"01_limit": ["1.1"]}


def test_where_nothing_can_be_written_nothing_happens(kept, monkeypatch, tmp_path):
    kept.mkdir(parents=True)  # a folder where the file should be
    marks.record("01_limit", "1.1")
    assert marks.solved() == {} and os.listdir(kept.parent) == ["marks.json"]
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "file" / "below" / "marks"))
    marks.record("01_limit", "1.1")
    assert marks.solved() == {}


def test_an_unfinished_write_leaves_the_old_marks(kept, monkeypatch):
    marks.record("01_limit", "1.1")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError()))
    marks.record("01_limit", "1.2")
    assert marks.solved() == {"01_limit": ["1.1"]}
    assert os.listdir(kept.parent) == ["marks.json"]
    assert stat.S_ISREG(kept.stat().st_mode)


@pytest.mark.parametrize(
    ("platform", "variable", "part"),
    [
        ("linux", "XDG_DATA_HOME", "/base/gradient-accumulation-course"),
        ("linux", None, ".local/share/gradient-accumulation-course"),
        ("darwin", None, "Library/Application Support"),
        ("win32", "LOCALAPPDATA", "/base/gradient-accumulation-course"),
        ("win32", None, "AppData/Local"),
    ],
)
def test_marks_lie_in_the_users_data_folder(monkeypatch, platform, variable, part):
    for name in ("COURSE_PROGRESS", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "/base")
    monkeypatch.setattr(sys, "platform", platform)
    path = marks.path().as_posix()
    assert part in path and path.endswith("/progress.json")
