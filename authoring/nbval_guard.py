"""A pytest plugin beside nbval: what nbval would pass over in silence fails.

Learner notebooks run with every exercise to be open, solved ones with every exercise to
be correct. A notebook that did not run whole, a cell that writes to stderr, an exercise
that no check reached and a kernel that died are failures.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

import pytest

from authoring.source import EXERCISE

LOOK_EVERY = 2  # seconds between two looks at whether the kernel lives
STARTS = 3  # a kernel dies at once where another program took a port meant for it


def pytest_configure(config: pytest.Config) -> None:
    """See a dead kernel at once, and count cells in the process that has them all."""
    from nbval import kernel

    kernel.RunningKernel.await_reply = _await_reply
    kernel.start_new_kernel = partial(_start, kernel.start_new_kernel)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(CellCount(config))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the notebook's kernel starts: how its exercises have to come out."""
    if item.cell_num == 0:
        solved = item.path.parent.name == "solutions"
        os.environ["COURSE_CHECKS"] = "solved" if solved else "unattempted"
        folder = Path(tempfile.mkdtemp(prefix="course-notebook-"))
        os.environ["COURSE_CHECKS_LOG"] = str(folder / "checks.jsonl")
        os.environ["COURSE_PROGRESS"] = str(folder / "progress.json")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a cell that shows a red box, and a notebook that left out an exercise."""
    result = yield
    red = "".join(
        output.text
        for output in item.test_outputs or []
        if output.output_type == "stream" and output.name == "stderr"
    ).strip()
    if red and "allow-stderr" not in item.cell.metadata.get("tags", []):
        pytest.fail(f"the cell writes to stderr:\n{red[:600]}", pytrace=False)
    code = [cell for cell in item.parent.nb.cells if cell.cell_type == "code"]
    if item.cell_num == len(code) - 1:
        missed = _exercises(code) - _checked(Path(os.environ["COURSE_CHECKS_LOG"]))
        if missed:
            names = ", ".join(sorted(missed))
            pytest.fail(f"no check reached exercise {names}", pytrace=False)
    return result


class CellCount:
    """Compares the cells that ran with the cells that the notebooks have."""

    def __init__(self, config: pytest.Config) -> None:
        self.root = config.rootpath
        self.cells = {
            path: sum(c["cell_type"] == "code" for c in json.loads(text)["cells"])
            for argument in config.args
            for path in _notebooks(Path(argument))
            if (text := path.read_text("utf-8"))
        }
        self.ran: Counter[Path] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and not report.skipped:
            self.ran[(self.root / report.nodeid.split("::")[0]).resolve()] += 1

    def problems(self) -> list[str]:
        """A sentence for each notebook that did not run whole."""
        short = [(p, self.ran[p], n) for p, n in self.cells.items() if self.ran[p] != n]
        empty = [(path, 0, 0) for path, number in self.cells.items() if not number]
        return [
            f"{path.relative_to(self.root)}: {ran} of {number} code cells ran"
            for path, ran, number in short + empty
        ]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.problems() or not self.cells:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter) -> None:
        for line in self.problems():
            terminalreporter.write_line(f"FAILED {line}", red=True)


def _notebooks(path: Path) -> list[Path]:
    found = [path] if path.is_file() else sorted(path.rglob("*.ipynb"))
    return [p.resolve() for p in found if ".ipynb_checkpoints" not in p.parts]


def _exercises(cells: list) -> set[str]:
    tags = {tag for cell in cells for tag in cell.metadata.get("tags", [])}
    return {match[1] for tag in tags if (match := EXERCISE.match(tag))}


def _checked(log: Path) -> set[str]:
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    shutil.rmtree(log.parent)
    return {json.loads(line)["exercise"] for line in lines}


def _start(start: Callable, *arguments, **named):
    """nbval's own start of a kernel, tried again where the kernel did not live."""
    for left in reversed(range(STARTS)):
        try:
            return start(*arguments, **named)
        except RuntimeError:
            if not left:
                raise


def _await_reply(self, msg_id: str, timeout: float | None = None) -> None:
    """nbval's own, which waits for the whole cell timeout when the kernel has died."""
    end = time.monotonic() + (timeout or float("inf"))
    while True:
        left = end - time.monotonic()
        try:
            message = self.get_message("shell", timeout=max(0, min(left, LOOK_EVERY)))
        except queue.Empty:
            if not self.is_alive():
                why = "the kernel died while it ran this cell (out of memory?)"
                raise RuntimeError(why) from None
            if left <= 0:
                raise
            continue
        if message["parent_header"].get("msg_id") == msg_id:
            if message["content"]["status"] == "aborted":
                raise RuntimeError("Kernel aborted execution request")
            return
