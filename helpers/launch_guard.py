"""Runs a command, and sees to it that nothing of the command outlives its starter.

`python launch_guard.py SECONDS SILENCE COMMAND...`, started by `launch.run`. The guard
ends all processes that came of the command when the command ends, when the seconds are
over or too many of them were silent, and when its standard input closes: that is when
the notebook goes on, and also when the notebook's kernel dies, however it dies. It
exits with the command's status, or with TIMED_OUT or SILENT.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

MARK = "@report "  # what a line of `processes.report` begins with
TIMED_OUT, SILENT = 124, 125  # the first as the command `timeout` has it
FOLDER = "SEVERAL_FOLDER"  # names what the starter would remove, if it could
OWN = "command.txt"  # what the command itself prints
GRACE = 3.0  # seconds for the processes to say where they were


def main(seconds: float, silence: float, command: list[str]) -> int:
    """Run the command to its end or to ours; "{logs}" in it becomes a folder."""
    _adopt_orphans()
    starter = os.getppid()
    starter_gone = threading.Event()
    threading.Thread(target=_await_end, args=(starter_gone,), daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="several_") as folder:
        where = {**os.environ, "TMPDIR": folder}
        command = [part.replace("{logs}", folder) for part in command]
        logs = _Logs(Path(folder))
        begin = time.monotonic()
        with open(logs.folder / OWN, "wb") as own:
            run = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=own, stderr=own, env=where
            )
        try:
            while run.poll() is None and not starter_gone.is_set():
                with contextlib.suppress(BrokenPipeError):
                    logs.pass_on()
                late = time.monotonic() - begin > seconds
                if late or logs.silent_for() > silence:
                    _ask_where_they_are(run)
                    return TIMED_OUT if late else SILENT
                starter_gone.wait(0.05)
        finally:
            _end_all()
            if os.getppid() != starter and FOLDER in os.environ:
                shutil.rmtree(os.environ[FOLDER], ignore_errors=True)
            with contextlib.suppress(BrokenPipeError):  # nobody is there to read
                logs.pass_on_the_rest()
        return run.returncode or 0


class _Logs:
    """The files that the processes print to, passed on by whole lines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: dict[Path, int] = {}  # bytes of each file that were passed on
        self.last: float | None = None  # when the last line was

    def pass_on(self, kind: str = "stdout", unfinished: bool = False) -> None:
        """Print the new lines, each with what it is and the rank that it is from."""
        for log in sorted(self.folder.rglob(f"{kind}.log")):
            with open(log, "rb") as file:
                file.seek(self.read.get(log, 0))
                new = file.read()
            if not unfinished:
                new = new[: new.rfind(b"\n") + 1]
            self.read[log] = self.read.get(log, 0) + len(new)
            for line in new.decode(errors="replace").splitlines():
                print(f"[{kind}{log.parent.name}]:{line}")
                self.last = time.monotonic()
        sys.stdout.flush()

    def silent_for(self) -> float:
        """Seconds since the last line; 0 while there has been none."""
        return 0.0 if self.last is None else time.monotonic() - self.last

    def pass_on_the_rest(self) -> None:
        """What is left, standard errors, and the words of the command itself."""
        self.pass_on(unfinished=True)
        self.pass_on("stderr", unfinished=True)
        print((self.folder / OWN).read_text(errors="replace"), flush=True)


def _await_end(event: threading.Event) -> None:
    # Past Python's buffer, whose lock would make the exit fail.
    while os.read(0, 1):
        pass
    event.set()


def _adopt_orphans() -> None:
    """On Linux: a process whose parent ended becomes a child of the guard."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        # Ended by SIGABRT, a process would else leave a file of all its memory.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        import ctypes

        PR_SET_CHILD_SUBREAPER = 36
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _ask_where_they_are(run: subprocess.Popen) -> None:
    """SIGABRT makes Python's faulthandler print the line that each process is in."""
    import psutil

    if os.name == "nt":
        return
    for worker in psutil.Process(run.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            worker.send_signal(signal.SIGABRT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        run.wait(GRACE)


def _end_all() -> None:
    """Kill every process below this one until there is none."""
    import psutil

    while left := psutil.Process().children(recursive=True):
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=1)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
