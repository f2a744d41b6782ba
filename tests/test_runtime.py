"""The start of a lesson: what it installs, what it shows, threads and seeds."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import types
from importlib import metadata

import numpy as np
import pytest
import torch
from packaging.requirements import Requirement

from helpers import VERSION, packages, runtime


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_version_is_the_packages_own():
    assert metadata.version(packages.DISTRIBUTION) == VERSION


def test_import_takes_under_a_tenth_of_a_second_and_loads_nothing_heavy():
    code = (
        # Processor time: on a busy machine the clock says nothing about an import.
        "import sys, time; t = time.process_time(); from helpers import runtime;"
        "print(time.process_time() - t, *sys.modules)"
    )
    seconds = []
    for _ in range(3):
        out = subprocess.check_output([sys.executable, "-c", code], text=True).split()
        seconds.append(float(out[0]))
        heavy = {"torch", "transformers", "datasets", "evaluate", "IPython", "numpy"}
        assert not heavy & set(out[1:])
    assert min(seconds) < 0.1, seconds


def test_start_shows_device_versions_and_that_all_is_well(monkeypatch):
    monkeypatch.setattr(packages, "install", _refuse_to_install)
    setup = runtime.start(VERSION)
    assert setup.problems == []
    text = repr(setup)
    assert f"torch {metadata.version('torch')}" in text
    assert "✔ every package is in the range" in text
    assert len(text.splitlines()) == 4
    html = setup._repr_html_()
    assert html.count('<th scope="row"') == 4
    assert runtime.device().type in setup.device
    if runtime.device().type == "cpu":
        assert torch.get_num_threads() == runtime.THREADS == 1
    assert os.environ["TOKENIZERS_PARALLELISM"] == "false"


def _refuse_to_install(missing):
    assert missing == []


@pytest.mark.parametrize(
    ("notebook", "words"),
    [
        ("0.0.1", "notebook is older (0.0.1) than the helpers"),
        ("99.0", "helpers are older"),
    ],
)
def test_another_version_is_one_sentence_with_what_to_do(notebook, words):
    problem = packages.course_problem(notebook)
    assert words in problem
    assert "download the notebook" in problem or f"@v{notebook}" in problem
    assert "✘ " + problem in repr(runtime.start(notebook))


def test_helpers_that_are_not_installed_say_so(monkeypatch):
    monkeypatch.setattr(packages, "DISTRIBUTION", "no-such-distribution")
    assert packages.requirements() == []
    assert "make lab" in packages.course_problem(VERSION)


def test_requirements_are_the_core_ones_only():
    names = {line.name for line in packages.requirements()}
    assert {"torch", "evaluate"} <= names
    assert not {"jupyterlab", "ipywidgets", "pytest"} & names


def test_a_package_out_of_range_names_range_and_remedy():
    found = metadata.version("numpy")
    problem = packages.range_problem(Requirement("numpy>=999"))
    assert f"numpy {found}" in problem
    assert '%pip install "numpy>=999"' in problem
    assert packages.range_problem(Requirement("numpy>=1")) is None
    assert packages.range_problem(Requirement("no-such-package>=1")) is None


def test_install_pins_all_that_is_present(monkeypatch, capsys):
    seen = {}

    def pip(command, **_):
        path = command[command.index("--constraint") + 1]
        with open(path, encoding="utf-8") as file:
            seen["pins"] = file.read().splitlines()
        seen["last"] = command[-1]
        return types.SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(subprocess, "run", pip)
    packages.install([Requirement("evaluate>=0.4.2")])
    assert seen["last"] == "evaluate>=0.4.2"
    assert f"torch=={metadata.version('torch')}" in seen["pins"]
    assert f"numpy=={np.__version__}" in seen["pins"]
    assert capsys.readouterr().out == "Installing what this machine lacks: evaluate.\n"


def test_nothing_missing_starts_no_pip(monkeypatch):
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    packages.install([])


def test_a_failed_install_is_one_sentence(monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(RuntimeError, match="no-such-package could not be installed"):
        packages.install([Requirement("no-such-package")])


def test_pins_skip_what_pip_cannot_read_and_take_the_first_of_two(monkeypatch):
    def dist(name, version):
        return types.SimpleNamespace(metadata={"Name": name}, version=version)

    found = [dist("A_b", "1.0"), dist("a-b", "2.0"), dist("old", "1.0-what-1")]
    monkeypatch.setattr(metadata, "distributions", lambda: found)
    assert packages.pins_of_present() == ["a-b==1.0"]


def test_seed_starts_every_generator_again():
    def draw():
        return random.random(), np.random.rand(), torch.rand(1).item()

    runtime.seed(3)
    first = draw()
    runtime.seed(3)
    assert draw() == first
    runtime.seed(4)
    assert draw() != first


@pytest.mark.parametrize(("cuda", "kind"), [(True, "cuda"), (False, "cpu")])
def test_device_is_cuda_or_the_cpu_since_mps_has_no_float64(monkeypatch, cuda, kind):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    card = types.SimpleNamespace(name="Card", total_memory=16 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: card)
    assert runtime.device() == torch.device(kind)
    assert runtime._device_line().startswith(kind)


def test_measure_threads_gives_milliseconds_and_restores_the_number():
    torch.set_num_threads(1)
    found = runtime.measure_threads(steps=3)
    assert min(found) == 1
    assert all(0 < value < 60_000 for value in found.values())
    assert torch.get_num_threads() == 1
