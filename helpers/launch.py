"""Run a script on several processes of this machine, from a notebook.

`python -m torch.distributed.run` starts the processes; `launch_guard` ends them, when
the time is up or the notebook is interrupted, or when its kernel dies.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import launch_guard
from .launch_failure import RANKED, explain
from .launch_guard import MARK
from .launch_script import folder, script


class ProcessesFailed(RuntimeError):
    """The run failed or took too long; `run` is what there is of it."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.failure)
        self.run = run


@dataclass
class Run:
    """What a script did on several processes.

    Attributes:
        command: as one would type it.
        script: the file that ran.
        processes: how many.
        seconds: wall time.
        reports: what `processes.report` was given, a dict each with its "rank".
        output: every line that was printed, torchrun's own words among them.
        failure: what went wrong, in a few lines; None where nothing did.
    """

    command: str
    script: Path
    processes: int
    seconds: float = 0.0
    reports: list[dict[str, Any]] = field(default_factory=list)
    output: str = ""
    failure: str | None = None

    def of(self, rank: int) -> dict[str, Any]:
        """All values that one process reported, put together."""
        own = [r for r in self.reports if r["rank"] == rank]
        return {name: value for r in own for name, value in r.items()}

    def having(self, name: str, rank: int = 0) -> list[dict[str, Any]]:
        """The reports of one process that hold a value of this name, in order."""
        return [r for r in self.reports if r["rank"] == rank and name in r]

    def __repr__(self) -> str:
        ended = "failed" if self.failure else "ended well"
        return (
            f"Run: {self.script.name} on {self.processes} processes {ended} after "
            f"{self.seconds:.1f} s, {len(self.reports)} reports"
        )


def run(
    *what: str | Path | Callable,
    arguments: Sequence[object] = (),
    processes: int = 2,
    limit: float = 60.0,
    silence: float | None = None,
    show: bool = True,
    check: bool = True,
) -> Run:
    """Run a script by `python -m torch.distributed.run` and read its reports back.

    Args:
        what: a script's file; or functions, each called in turn on every process, of
            which `launch.script` makes a file.
        arguments: what the script finds in `sys.argv[1:]`.
        processes: how many, all on this machine.
        limit: seconds after which they are ended, their start included.
        silence: end them after so many seconds without a line printed, from their
            first line on.
        show: print what the processes print, as it comes.
        check: raise where the run fails; else `failure` says it.

    Raises:
        ProcessesFailed: a process raised, or a limit was reached. It names each
            process's own error, or the line that it waited in.
        ValueError: a number of processes or a limit that cannot be.
        FileNotFoundError: there is no such script.
    """
    if not isinstance(processes, int) or processes < 1:
        raise ValueError(f"processes is {processes!r}; give a whole number from 1 on.")
    silence = math.inf if silence is None else silence
    if not (limit > 0 and silence > 0):
        raise ValueError("limit and silence are in seconds, and have to be above 0.")
    is_file = len(what) == 1 and isinstance(what[0], (str, Path))
    file = Path(what[0]) if is_file else script(*what)
    if not file.is_file():
        raise FileNotFoundError(f"There is no script {file}.")
    torchrun = ["-m", "torch.distributed.run", "--standalone"]
    torchrun += [f"--nproc_per_node={processes}"]
    called = [str(file), *map(str, arguments)]
    done = Run(" ".join(["python", *torchrun, *called]), file, processes)
    # The guard passes on what each process prints; torchrun's own --tee mixes up lines.
    torchrun += ["--log_dir={logs}", "--redirects=3"]
    guard = [sys.executable, launch_guard.__file__, str(limit), str(silence)]
    begin = time.monotonic()
    status, lines = _follow([*guard, sys.executable, *torchrun, *called], done, show)
    done.seconds = time.monotonic() - begin
    done.output = "\n".join(lines)
    done.reports.sort(key=lambda report: report["rank"])
    if status:
        told = limit if status == launch_guard.TIMED_OUT else done.seconds
        done.failure = explain(file, processes, told, status, lines)
        if check:
            raise ProcessesFailed(done)
    return done


def _follow(command: list[str], done: Run, show: bool) -> tuple[int, list[str]]:
    """Read the output to its end; whatever happens here, the processes end."""
    own = {"start_new_session": True}  # a notebook's interrupt is for the notebook
    if os.name == "nt":
        own = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    guard = subprocess.Popen(
        command,
        env=_environment(done.processes),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        **own,
    )
    lines: list[str] = []
    try:
        for line in guard.stdout:
            lines.append(line.rstrip("\n"))
            _take(lines[-1], done, show)
    except KeyboardInterrupt:
        print(f"Interrupted: the {done.processes} processes were ended.")
        raise
    finally:
        guard.stdin.close()  # from here on the guard ends what is left
        try:
            guard.wait(20)
        finally:
            guard.kill()
            guard.stdout.close()
    return guard.returncode, lines


def _take(line: str, done: Run, show: bool) -> None:
    ranked = RANKED.match(line)
    if ranked is None or ranked[1] != "stdout":
        return
    if ranked[3].startswith(MARK):
        done.reports.append(json.loads(ranked[3].removeprefix(MARK)))
    elif show:
        print(f"[{ranked[2]}] {ranked[3]}")


def _environment(processes: int) -> dict[str, str]:
    """That of the notebook, with what several processes on one machine need."""
    import torch

    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    wanted = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
    wanted |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    wanted |= {launch_guard.FOLDER: str(folder())}
    if sys.dont_write_bytecode:
        # Each process would compile all of torch anew; a folder that goes away helps.
        wanted |= {"PYTHONDONTWRITEBYTECODE": ""}
        wanted |= {"PYTHONPYCACHEPREFIX": str(folder() / "compiled")}
    gpus = torch.cuda.device_count()
    if 0 < gpus < processes:
        print(
            f"{gpus} GPU for {processes} processes: NCCL wants one for each, so they "
            "compute on the CPU and exchange by gloo."
        )
        wanted["CUDA_VISIBLE_DEVICES"] = ""
    return {**os.environ, **wanted}
