"""`make lab`: the layout and settings it starts JupyterLab with."""

from __future__ import annotations

import json
import sys

import pytest

import lab


@pytest.fixture
def course(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(lab, "ROOT", tmp_path)
    monkeypatch.setattr(lab, "SHARE", tmp_path / "share")
    monkeypatch.setattr(sys, "argv", ["lab.py", "--no-browser"])
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", "")
    monkeypatch.setattr("jupyterlab.labapp.LabApp.launch_instance", started.append)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/01_first.ipynb").write_text("{}")
    return tmp_path, started


def layout(folder):
    (path,) = (folder / "share/workspaces").iterdir()
    return path, json.loads(path.read_text("utf-8"))


def test_opens_lesson_1_beside_its_contents(course):
    folder, started = course
    lab.main()
    _, workspace = layout(folder)
    assert workspace["metadata"]["id"] == "course"
    data = workspace["data"]
    assert data["notebook:notebooks/01_first.ipynb"]["data"]["path"] == (
        "notebooks/01_first.ipynb"
    )
    left = data["layout-restorer:data"]["left"]
    assert left["current"] == "@jupyterlab/toc:plugin"
    options = started[0]
    assert f"--ServerApp.root_dir={folder}" in options
    assert "--LabApp.default_url=/lab/workspaces/course" in options
    assert options[-1] == "--no-browser"


def test_stops_the_question_about_news(course):
    folder, _ = course
    lab.main()
    text = (folder / "share/settings/overrides.json").read_text("utf-8")
    notification = json.loads(text)["@jupyterlab/apputils-extension:notification"]
    assert notification["fetchNews"] == "false"


def test_a_second_start_leaves_layout_and_settings_as_they_were_left(course):
    folder, _ = course
    lab.main()
    path, _ = layout(folder)
    path.write_text('{"mine": 1}')
    settings = folder / "share/settings/overrides.json"
    settings.write_text('{"mine": 2}')
    lab.main()
    assert layout(folder)[1] == {"mine": 1}
    assert settings.read_text() == '{"mine": 2}'


@pytest.mark.parametrize(("user", "allowed"), [(0, True), (1000, False)])
def test_runs_as_root_only_where_one_is_root(course, monkeypatch, user, allowed):
    monkeypatch.setattr("os.geteuid", lambda: user, raising=False)
    _, started = course
    lab.main()
    assert ("--allow-root" in started[0]) is allowed


def test_without_lesson_1_one_sentence(course):
    folder, started = course
    (folder / "notebooks/01_first.ipynb").unlink()
    with pytest.raises(SystemExit, match="run make notebooks"):
        lab.main()
    assert not started
