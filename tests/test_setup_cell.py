"""The set-up cell, alone in an empty folder of a machine without the course."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import nbformat
import pytest

from authoring import project
from authoring.build import build, lessons
from authoring.project import ROOT
from authoring.setup_cell import setup_cell
from tests import lone_environment as lone

PROJECT = project.read()
LOOK = """
import json
from importlib import metadata
import helpers
print(runtime.start(helpers.VERSION))
found = {d.metadata["Name"]: d.version for d in metadata.distributions()}
print("FOUND", json.dumps([helpers.__file__, found]))
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """The environment after a first run of the set-up cell, in an empty folder."""
    place = tmp_path_factory.mktemp("machine")
    for name in ("wheels", "course", "empty"):
        (place / name).mkdir()
    python = lone.make_environment(place / "environment")
    lone.make_wheel("evaluate", place / "wheels")
    address = lone.make_repository(place / "course")
    here = project.Project(address, PROJECT.version)
    environment = lone.variables(place / "wheels")
    before = sorted(p.name for p in lone.site_packages(place / "environment").iterdir())
    first = lone.run(python, place / "empty", setup_cell(here) + LOOK, environment)
    return SimpleNamespace(
        place=place,
        python=python,
        project=here,
        environment=environment,
        before=before,
        first=first,
    )


def found(run):
    assert run.returncode == 0, run.stdout + run.stderr
    (line,) = [x for x in run.stdout.splitlines() if x.startswith("FOUND")]
    return json.loads(line.removeprefix("FOUND "))


def test_the_helpers_arrive_at_the_courses_own_version(machine):
    path, versions = found(machine.first)
    packages = lone.site_packages(machine.place / "environment")
    assert path == str(packages / "helpers/__init__.py")
    assert versions["gradient-accumulation-course"] == PROJECT.version
    assert "✔ every package is in the range" in machine.first.stdout


def test_what_is_missing_is_installed_and_nothing_else_moves(machine):
    assert "Installing what this machine lacks: evaluate." in machine.first.stdout
    packages = lone.site_packages(machine.place / "environment")
    after = {path.name for path in packages.iterdir()}
    new = {name for name in after - set(machine.before) if name != "__pycache__"}
    assert {name.partition("-")[0] for name in new} == {
        "evaluate",
        "helpers",
        "gradient_accumulation_course",
    }
    assert set(machine.before) <= after
    assert all((packages / name).is_symlink() for name in machine.before if "-" in name)


def test_all_of_helpers_data_and_configs_is_installed(machine):
    packages = lone.site_packages(machine.place / "environment") / "helpers"
    here = {
        path.relative_to(folder): path
        for folder in (ROOT / "helpers", ROOT / "data", ROOT / "configs")
        for path in folder.rglob("*")
        if path.suffix and "__pycache__" not in path.parts
    }
    inside = {"helpers": "", "data": "_data", "configs": "_configs"}
    for name, path in here.items():
        parent = packages / inside[path.relative_to(ROOT).parts[0]]
        assert (parent / name).read_bytes() == path.read_bytes()


def test_a_second_run_installs_nothing(machine):
    environment = machine.environment | {"PATH": os.devnull}  # no git, no pip
    cell = setup_cell(machine.project)
    again = lone.run(machine.python, machine.place / "empty", cell + LOOK, environment)
    assert found(again)[0] == found(machine.first)[0]
    assert "Installing" not in again.stdout


@pytest.mark.parametrize("name", ["helpers.py", "helpers/__init__.py"])
def test_another_helpers_in_the_way_is_named(machine, tmp_path, name):
    other = tmp_path / name
    other.parent.mkdir(exist_ok=True)
    other.write_text("mine = 1\n")
    cell = setup_cell(machine.project)
    run = lone.run(machine.python, tmp_path, cell, machine.environment)
    assert "cannot import name 'runtime' from 'helpers'" in run.stdout + run.stderr
    assert str(other) in run.stdout + run.stderr
    assert other.read_text() == "mine = 1\n"


def test_an_empty_folder_called_helpers_is_not_in_the_way(machine, tmp_path):
    remove = "%pip uninstall --quiet --yes gradient-accumulation-course\n"
    (tmp_path / "helpers").mkdir()
    run = lone.run(
        machine.python,
        tmp_path,
        remove + setup_cell(machine.project) + LOOK,
        machine.environment,
    )
    assert found(run)[0] == found(machine.first)[0]


def test_a_lesson_copied_alone_runs_to_its_end(machine, tmp_path):
    from ipykernel.kernelspec import get_kernel_dict
    from jupyter_client import AsyncKernelManager
    from jupyter_client.kernelspec import KernelSpec
    from nbclient import NotebookClient

    class ThatPython(AsyncKernelManager):
        @property
        def kernel_spec(self):
            spec = get_kernel_dict()
            spec["argv"][0] = str(machine.python)
            return KernelSpec(**spec)

    lesson = lessons()[-1]
    notebook = build(lesson, machine.project)
    nbformat.write(notebook, tmp_path / f"{lesson.stem}.ipynb")
    NotebookClient(
        nbformat.read(tmp_path / f"{lesson.stem}.ipynb", 4),
        timeout=300,
        resources={"metadata": {"path": str(tmp_path)}},
        kernel_manager_class=ThatPython,
    ).execute(env=machine.environment | {"COURSE_CHECKS": "unattempted"})
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{lesson.stem}.ipynb"]
