"""Measures the lessons and writes the table of README.md.

python -m authoring.measure     runs every solved notebook on two cores

Exits 1 where a lesson takes longer, or more memory, than a learner was promised.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from authoring import project as settings
from authoring.build import lessons
from authoring.execute import execute
from authoring.project import ROOT, Project
from authoring.setup_cell import buttons
from authoring.source import Lesson

CORES = 2
# What a learner was promised: seconds and MiB.
USUAL = (45, 2048)
PROMISED = {5: (75, 3072), 6: (75, 3072), 7: (60, 2048)}
MARKS = re.compile(r"(?<=<!-- lessons -->\n).*?(?=<!-- /lessons -->)", re.S)
MINUTES = re.compile(r"About (\d+) minutes")
COMING = {  # to be written; their titles are settled
    8: "Capstone",
}
EVERY = 0.1  # seconds between two looks at the memory


@dataclass(frozen=True)
class Cost:
    """What one run of a solved notebook took, kernel start included."""

    seconds: float
    mebibytes: float

    def kept(self, number: int) -> bool:
        """Whether it is within what a learner of this lesson was promised."""
        seconds, mebibytes = PROMISED.get(number, USUAL)
        return self.seconds <= seconds and self.mebibytes <= mebibytes


def cost(lesson: Lesson, root: Path = ROOT) -> Cost:
    """Run the solved notebook of a lesson and measure it.

    Raises:
        AuthoringError: a cell failed.
    """
    import nbformat

    path = root / "notebooks" / "solutions" / f"{lesson.stem}.ipynb"
    notebook = nbformat.read(path, 4)
    start = time.perf_counter()
    with _Peak() as peak:
        execute(notebook, path.parent)
    return Cost(time.perf_counter() - start, peak.mebibytes)


class _Peak:
    """The most memory of all processes that this one starts: a kernel, and its own."""

    mebibytes = 0.0

    def __enter__(self) -> _Peak:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(EVERY):
            held = 0
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    held += process.memory_info().rss
            self.mebibytes = max(self.mebibytes, held / 2**20)


def table(course: list[Lesson], costs: list[Cost], project: Project) -> str:
    """The lessons as a Markdown table, those to come included."""
    rows = [
        "| | lesson | to follow | runs in | peak memory | online |",
        "|---|---|---|---|---|---|",
    ]
    for lesson, spent in zip(course, costs, strict=True):
        number, title = heading(lesson)
        link = f"[{title}](notebooks/{lesson.stem}.ipynb)"
        links = buttons(project, lesson.stem)
        solved = f"[solved](notebooks/solutions/{lesson.stem}.ipynb)"
        rows.append(
            f"| {number} | {link} ({solved}) | {minutes(lesson)} min "
            f"| {spent.seconds:.0f} s | {spent.mebibytes:.0f} MiB | {links} |"
        )
    there = {heading(lesson)[0] for lesson in course}
    rows += [
        f"| {number} | {title} | in the making | | | |"
        for number, title in COMING.items()
        if number not in there
    ]
    return "\n".join(rows) + "\n"


def heading(lesson: Lesson) -> tuple[int, str]:
    """Number and title of a lesson, from its first heading: `# 2 · Title`."""
    number, title = (
        lesson.cells[0].solved.splitlines()[0].removeprefix("# ").split(" · ")
    )
    return int(number), title


def minutes(lesson: Lesson) -> int:
    """Minutes to follow a lesson, as its first cell says."""
    return int(MINUTES.search(lesson.cells[0].solved)[1])


def main(root: Path = ROOT) -> int:
    """Measure, print and write; returns the exit status."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    course, costs, kept = lessons(root), [], []
    for lesson in course:
        costs.append(cost(lesson, root))
        kept.append(costs[-1].kept(heading(lesson)[0]))
        spent = f"{costs[-1].seconds:.1f} s, {costs[-1].mebibytes:.0f} MiB"
        print(f"{lesson.stem}: {spent}{'' if kept[-1] else ', over the limit'}")
    readme = root / "README.md"
    text = readme.read_text("utf-8")
    rows = table(course, costs, settings.read(root))
    readme.write_bytes(MARKS.sub(lambda _: rows, text).encode())
    return not all(kept)


if __name__ == "__main__":
    sys.exit(main())
