"""Measures the lessons and writes the table of README.md.

python -m authoring.measure     runs every solved notebook on two cores

Exits 1 where a lesson takes longer, or more memory, than a learner was promised.
"""

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from authoring import project as settings
from authoring.build import lessons
from authoring.execute import execute
from authoring.project import ROOT, Project
from authoring.setup_cell import buttons
from authoring.source import Lesson

CORES = 2
MOST_SECONDS = 45
MOST_MEBIBYTES = 2048
MARKS = re.compile(r"(?<=<!-- lessons -->\n).*?(?=<!-- /lessons -->)", re.S)
MINUTES = re.compile(r"About (\d+) minutes")
COMING = {  # to be written; their titles are settled
    3: "Accelerator",
    4: "Trainer",
    5: "Unequal micro-batches",
    6: "Several processes",
    7: "Below the floor",
    8: "Capstone",
}
# ru_maxrss is in KiB on Linux and in bytes on macOS.
PEAK = """\
import resource, sys
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak / (2**20 if sys.platform == "darwin" else 2**10))"""


@dataclass(frozen=True)
class Cost:
    """What one run of a solved notebook took, kernel start included."""

    seconds: float
    mebibytes: float

    @property
    def kept(self) -> bool:
        """Whether it is within what a learner was promised."""
        return self.seconds <= MOST_SECONDS and self.mebibytes <= MOST_MEBIBYTES


def cost(lesson: Lesson, root: Path = ROOT) -> Cost:
    """Run the solved notebook of a lesson and measure it.

    Raises:
        AuthoringError: a cell failed.
    """
    import nbformat

    path = root / "notebooks" / "solutions" / f"{lesson.stem}.ipynb"
    notebook = nbformat.read(path, 4)
    notebook.cells.append(nbformat.v4.new_code_cell(PEAK))
    start = time.perf_counter()
    execute(notebook, path.parent)
    seconds = time.perf_counter() - start
    return Cost(seconds, float(notebook.cells[-1].outputs[0].text))


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
    course, costs = lessons(root), []
    for lesson in course:
        costs.append(cost(lesson, root))
        spent = f"{costs[-1].seconds:.1f} s, {costs[-1].mebibytes:.0f} MiB"
        print(f"{lesson.stem}: {spent}{'' if costs[-1].kept else ', over the limit'}")
    readme = root / "README.md"
    text = readme.read_text("utf-8")
    rows = table(course, costs, settings.read(root))
    readme.write_bytes(MARKS.sub(lambda _: rows, text).encode())
    return not all(spent.kept for spent in costs)


if __name__ == "__main__":
    sys.exit(main())
