"""pyproject.toml, constraints.txt, environment.yml and Colab agree."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from authoring import project as settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
CORE = [Requirement(line) for line in PROJECT["dependencies"]]
ALL = CORE + [Requirement(line) for lines in EXTRAS.values() for line in lines]
LOCK = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]

# What Colab gives a notebook: pip-freeze.gpu.txt of googlecolab/backend-info, June 2026
# (commit 03a89033b7dd), and torch as in the oldest runtime that a notebook there can be
# pinned to (2025.07). With a lower bound above these, the set-up would move packages of
# a running kernel. evaluate is not there, so the set-up cell brings it.
COLAB = {
    "accelerate": "1.13.0",
    "datasets": "4.0.0",
    "ipython": "7.34.0",
    "ipywidgets": "7.7.1",
    "matplotlib": "3.10.0",
    "numpy": "2.0.2",
    "psutil": "5.9.5",
    "scikit-learn": "1.6.1",
    "torch": "2.6.0",
    "tqdm": "4.67.3",
    "transformers": "5.9.0",
}


@pytest.mark.parametrize("wanted", ALL, ids=lambda line: line.name)
def test_the_lock_pins_what_pyproject_asks_for(wanted):
    pins = [pin for pin in LOCK if canonicalize_name(pin.name) == wanted.name]
    assert pins, f"{wanted.name} is not in constraints.txt: run make lock"
    for pin in pins:
        (exact,) = pin.specifier
        assert exact.operator == "=="
        assert wanted.specifier.contains(exact.version), f"{pin} against {wanted}"


def test_the_oldest_lock_pins_transformers_4_and_fits_as_well():
    text = (ROOT / "constraints-oldest.txt").read_text("utf-8")
    pins = {pin.name: pin for pin in map(Requirement, text.splitlines())}
    (exact,) = pins["transformers"].specifier
    assert exact.version.startswith("4.57.")
    for wanted in ALL:
        pin = pins[wanted.name]
        assert all(wanted.specifier.contains(one.version) for one in pin.specifier)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "-c constraints-oldest.txt -e" in makefile


def test_the_lock_pins_each_package_once_on_each_python():
    for version in ("3.10.0", "3.12.0", "3.14.0"):
        machine = {"python_full_version": version, "python_version": version[:4]}
        names = [
            pin.name
            for pin in LOCK
            if pin.marker is None or pin.marker.evaluate(machine)
        ]
        assert len(names) == len(set(names))
        assert {line.name for line in ALL} <= set(names)


def test_the_lock_leaves_the_build_of_torch_open():
    # "==2.13.0" takes a CPU build (2.13.0+cpu) on a machine whose index has one.
    for pin in LOCK:
        assert "+" not in str(pin.specifier), pin


@pytest.mark.parametrize("wanted", CORE, ids=lambda line: line.name)
def test_colab_needs_no_package_moved(wanted):
    if wanted.name == "evaluate":
        assert wanted.name not in COLAB
    else:
        assert wanted.specifier.contains(COLAB[wanted.name])


def test_widgets_come_with_jupyterlab_and_never_to_colab():
    # A newer ipywidgets breaks the widgets of a running Colab kernel.
    assert "ipywidgets" not in {line.name for line in CORE}
    widgets = next(line for line in ALL if line.name == "ipywidgets")
    assert widgets.specifier.contains(COLAB["ipywidgets"])


def test_the_two_generations_of_transformers_are_admitted():
    wanted = next(line for line in CORE if line.name == "transformers")
    assert wanted.specifier.contains("4.57.0")
    assert wanted.specifier.contains("5.24.0")


def test_conda_installs_what_make_lab_installs():
    text = (ROOT / "environment.yml").read_text("utf-8")
    environment = yaml.safe_load(text)
    assert environment["name"] == PROJECT["name"]
    *conda, last = environment["dependencies"]
    assert [re.split("[=<>]", name)[0] for name in conda] == ["python", "pip"]
    python = conda[0].partition("=")[2]
    assert SpecifierSet(PROJECT["requires-python"]).contains(python)
    asked = last["pip"]
    assert asked == ["-c constraints.txt", "-e .[lab]"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert asked[0] in makefile
    assert '-e ".[lab]"' in makefile


def test_ci_runs_make_test_on_the_oldest_and_the_newest_python():
    text = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    job = yaml.safe_load(text)["jobs"]["test"]
    matrix = job["strategy"]["matrix"]
    assert {name.split("-")[0] for name in matrix["os"]} == {
        "ubuntu",
        "macos",
        "windows",
    }
    oldest, newest = matrix["python"]
    assert f">={oldest}" == PROJECT["requires-python"]
    assert tuple(map(int, newest.split("."))) >= (3, 13)
    assert "make test" in [step.get("run") for step in job["steps"]]
    assert (ROOT / ".ci/run").read_text("utf-8").rstrip().endswith("exec make test")


def test_versions_and_address_stand_once():
    from helpers import VERSION

    project = settings.read(ROOT)
    assert project.version == VERSION
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert str(citation["version"]) == VERSION
    assert citation["repository-code"] == project.repository
