"""Processes that are started from a notebook end, whatever happens to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

import psutil
import pytest
import torch

from authoring.project import ROOT
from helpers import launch, launch_guard, launch_script, processes
from tests import toys

POSIX = pytest.mark.skipif(os.name == "nt", reason="signals as POSIX has them")


def alive(pids):
    """Those that still run; what only waits to be collected has ended."""
    return [
        pid
        for pid in pids
        if psutil.pid_exists(pid)
        and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    ]


def gone(pids, within=10.0):
    deadline = time.monotonic() + within
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pids)


def written(folder, count, within=90.0):
    """The process ids that `count` processes left in a folder."""
    deadline = time.monotonic() + within
    while len(files := list(folder.glob("*.pid"))) < count:
        assert time.monotonic() < deadline, "the processes did not start"
        time.sleep(0.05)
    return [int(file.stem) for file in files]


# A process and, in a session of its own as torchrun's workers are, a child of it.
FAMILY = """
import os, pathlib, subprocess, sys, time
pathlib.Path(sys.argv[1], f"{os.getpid()}.pid").touch()
if len(sys.argv) == 2:
    subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "child"],
                     start_new_session=True)
time.sleep(600)
"""


@pytest.fixture
def family(tmp_path):
    file = tmp_path / "family.py"
    file.write_text(FAMILY)
    return [sys.executable, str(file), str(tmp_path)]


def guard(command, limit="60", silence="inf"):
    return subprocess.Popen(
        [sys.executable, launch_guard.__file__, limit, silence, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def test_the_guard_ends_the_whole_family_when_the_time_is_up(family, tmp_path):
    begin = time.monotonic()
    with guard(family, limit="2") as run:
        pids = written(tmp_path, 2)
        assert run.wait(20) == launch_guard.TIMED_OUT
        run.stdin.close()
    assert not alive(pids) and time.monotonic() - begin < 15


def test_the_guard_ends_the_family_when_its_starter_is_gone(family, tmp_path):
    with guard(family) as run:
        pids = written(tmp_path, 2)
        assert alive(pids) == pids
        run.stdin.close()
        run.wait(20)
    assert not alive(pids)


@POSIX
def test_the_guard_ends_what_a_killed_parent_left_behind(family, tmp_path):
    with guard(family) as run:
        pids = written(tmp_path, 2)
        parent = psutil.Process(run.pid).children()[0]
        parent.kill()
        run.wait(20)
        run.stdin.close()
    assert gone(pids)


def test_the_guard_hands_on_the_status_of_the_command():
    with guard([sys.executable, "-c", "raise SystemExit(7)"]) as run:
        assert run.wait(20) == 7


RUNS = """
import sys
from helpers import launch
launch.run(sys.argv[1], limit=120)
"""
FOLLOWS = """
import sys
from helpers import launch, launch_guard
launch._environment = lambda processes: None
command = [sys.executable, launch_guard.__file__, "60", "inf", sys.executable]
launch._follow([*command, *sys.argv[1:]], launch.Run("", None, 2), True)
"""
WORKER = """
import os, pathlib, time
pathlib.Path({folder!r}, f"{{os.getpid()}}.pid").touch()
time.sleep(600)
"""


def notebook(folder, code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@POSIX
def test_a_kill_in_mid_run_leaves_no_process(tmp_path):
    """Two workers under torchrun; the Python that launched them is killed."""
    script = tmp_path / "worker.py"
    script.write_text(WORKER.format(folder=str(tmp_path)))
    with notebook(tmp_path, RUNS, str(script)) as started:
        workers = written(tmp_path, 2)
        below = psutil.Process(started.pid).children(recursive=True)
        started.kill()
        assert {*workers} < {p.pid for p in below}  # and the guard, and torchrun
        assert gone([p.pid for p in below])
    time.sleep(0.2)
    assert not list(tmp_path.glob("launch_*"))


@POSIX
def test_an_interrupt_ends_the_processes_and_goes_on_to_the_notebook(family, tmp_path):
    with notebook(tmp_path, FOLLOWS, *family[1:]) as started:
        pids = written(tmp_path, 2)
        started.send_signal(signal.SIGINT)
        said, _ = started.communicate(timeout=30)
    assert not alive(pids)
    assert "Interrupted: the 2 processes were ended." in said
    assert "KeyboardInterrupt" in said


def write(tmp_path, text):
    file = tmp_path / "lesson.py"
    file.write_text(textwrap.dedent(text))
    return file


def test_a_process_that_raises_is_told_in_its_own_words(tmp_path, capsys):
    script = write(
        tmp_path,
        """
        import os, sys, time
        print("hello from", os.environ["RANK"], *sys.argv[1:], flush=True)
        def work():
            if os.environ["RANK"] == "1":
                raise ValueError("the labels do not fit")
            time.sleep(600)
        work()
        """,
    )
    with pytest.raises(launch.ProcessesFailed) as caught:
        launch.run(script, arguments=["and", 7], limit=90)
    text = str(caught.value)
    assert text.startswith("lesson.py on 2 processes failed after ")
    assert "Process 1: ValueError: the labels do not fit\n  lesson.py, line 6: " in text
    assert "Process 0" not in text and len(text.splitlines()) < 9
    assert "torch/distributed" not in text
    assert "torchrun" in caught.value.run.output or "FAILED" in caught.value.run.output
    printed = capsys.readouterr().out
    assert "[0] hello from 0 and 7" in printed and "[1] hello from 1 and 7" in printed


def test_a_process_that_hangs_is_ended_and_its_line_is_told(tmp_path):
    script = write(
        tmp_path,
        """
        import os, time
        print(os.environ["OMP_NUM_THREADS"], flush=True)
        for number in range(500):  # long lines from both at once stay whole
            print('@report {"rank": %s, "x": "%s"}' % (os.environ["RANK"], 999 * "-"))
        if os.environ["RANK"] == "1":
            time.sleep(600)  # waits for a process that is through
        """,
    )
    run = launch.run(script, limit=90, silence=2, check=False, show=False)
    assert "fell silent and was ended after" in run.failure
    assert "Process 1: waited in line 7: time.sleep(600)" in run.failure
    assert "[1] 1" in run.failure and len(run.reports) == 1000
    assert "failed" in repr(run) and run.command.startswith(
        "python -m torch.distributed"
    )


def test_a_limit_that_is_too_short_says_so(tmp_path):
    script = write(tmp_path, "import time; time.sleep(600)")
    with pytest.raises(
        launch.ProcessesFailed, match=r"did not end within 0\.5 s and was"
    ):
        launch.run(script, limit=0.5)


def test_fewer_gpus_than_processes_compute_on_the_cpu(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert launch._environment(2)["CUDA_VISIBLE_DEVICES"] == ""
    assert "1 GPU for 2 processes: NCCL wants one for each" in capsys.readouterr().out
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert "CUDA_VISIBLE_DEVICES" not in launch._environment(2)
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"processes": 0}, ValueError, "processes is 0; give a whole number"),
        ({"processes": 1.5}, ValueError, "processes is 1.5; give a whole number"),
        ({"limit": 0}, ValueError, "have to be above 0"),
        ({"silence": -1}, ValueError, "have to be above 0"),
        ({}, FileNotFoundError, "There is no script no.py"),
    ],
)
def test_what_cannot_be_launched_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        launch.run("no.py", **options)


RATE = 0.5
SOME_MODEL = toys.model()


def helper():
    return RATE


def uses_much():
    model = toys.model()
    assert RATE == helper() == 0.5 and torch.is_tensor(model.head.weight)
    processes.several(model)


def takes_a_model():
    return SOME_MODEL


def calls_itself(n=0):
    return n or calls_itself(1)


def test_a_script_is_made_of_functions_and_what_they_name():
    file = launch.script(uses_much, calls_itself)
    text = file.read_text()
    assert file.name == "uses_much.py"
    for line in ("import torch", "from tests import toys", "RATE = 0.5"):
        assert line in text.splitlines()
    assert text.index("def helper") < text.index("def uses_much")
    assert text.endswith("    uses_much()\n    calls_itself()\n")
    done = subprocess.run(
        [sys.executable, str(file)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def has_names_of_its_own(rate: float = RATE):
    SOME_MODEL = rate  # of the function, whatever the notebook calls so
    return [helper for helper in (SOME_MODEL,)]


def test_names_that_a_function_makes_itself_are_not_taken_along():
    """A cell that runs again, when the notebook has things of those names by then."""
    text = launch.script(has_names_of_its_own).read_text()
    assert "RATE = 0.5" in text and "def helper" not in text


def test_folders_of_pythons_that_were_killed_are_removed(tmp_path, monkeypatch):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    kept = {f"launch_{os.getpid()}_a", "launch_of_somebody", "other"}
    for name in {*kept, f"launch_{dead.pid}_b"}:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    launch_script._remove_left_behind()
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_reports_that_have_a_name():
    reports = [{"rank": 0, "a": 1}, {"rank": 0, "b": 2}, {"rank": 1, "a": 3}]
    run = launch.Run("", None, 2, reports=[*reports, {"rank": 0, "a": 4}])
    assert [r["a"] for r in run.having("a")] == [1, 4]
    assert run.having("a", 1) == [{"rank": 1, "a": 3}] and run.having("c") == []


def test_what_a_script_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="uses `SOME_MODEL`, a RowClassifier of the"):
        launch.script(takes_a_model)
    with pytest.raises(TypeError, match="Give the functions to call"):
        launch.run(3)
    space = {}
    exec("def unseen():\n    pass", space)
    with pytest.raises(TypeError, match="source of unseen cannot be read"):
        launch.script(space["unseen"])
