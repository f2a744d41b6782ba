"""The machine a lesson runs on: what is installed, which device, threads and seeds.

Every notebook begins with :func:`start`. It completes what is missing, never moves a
package that is there, and shows in four lines what the lesson will run on. Nothing
heavy is imported with this module: torch is loaded by the functions that use it.
"""

from __future__ import annotations

import os
import platform
import random
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from statistics import median
from typing import TYPE_CHECKING

from helpers import VERSION, packages

if TYPE_CHECKING:
    import torch

THREADS = 1
"""Threads torch computes with on a CPU. The lessons' model is so small that sharing one
step between threads costs more than it saves; :func:`measure_threads` shows it."""

SHOWN = ("torch", "transformers", "accelerate", "datasets", "evaluate", "numpy")

# Progress bars of downloads and advice about tokenizers go to stderr, a red box in a
# notebook. Warnings proper stay.
QUIET = {
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_SYMLINKS_WARNING": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
}


@dataclass(frozen=True)
class Setup:
    """What a lesson runs on; shows itself as a short table.

    ``problems`` holds one sentence for each thing that is not as tested, with what to
    do about it; it is empty when all is well.
    """

    device: str
    versions: dict[str, str]
    problems: list[str] = field(default_factory=list)

    def rows(self) -> list[tuple[str, str]]:
        """The table: one (name, text) pair a row."""
        versions = ", ".join(
            f"{name} {number}" for name, number in self.versions.items()
        )
        fine = "every package is in the range that the course is tested with"
        checks = [f"✘ {problem}" for problem in self.problems] or [f"✔ {fine}"]
        return [
            ("device", self.device),
            ("course", VERSION),
            ("versions", versions),
            *(("check", text) for text in checks),
        ]

    def __repr__(self) -> str:
        return "\n".join(f"{name:10}{text}" for name, text in self.rows())

    def _repr_html_(self) -> str:
        left = 'style="text-align: left; vertical-align: top"'
        lines = (
            f'<tr><th scope="row" {left}>{name}</th><td {left}>{escape(text)}</td></tr>'
            for name, text in self.rows()
        )
        return f"<table>{''.join(lines)}</table>"


def start(version: str) -> Setup:
    """Make the machine ready for a lesson and say what it is.

    Installs the packages of the course that are missing (on Colab that is evaluate)
    and holds every package that is present where it is. Sets the number of threads.

    Args:
        version: the course's version that the notebook was made for.

    Raises:
        RuntimeError: a missing package could not be installed.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    # tqdm then draws its bar as text, which is all that is lost.
    warnings.filterwarnings("ignore", message="IProgress not found")
    wanted = packages.requirements()
    packages.install([line for line in wanted if not packages.version_of(line.name)])
    problems = [packages.course_problem(version), *map(packages.range_problem, wanted)]
    names = {"Python": platform.python_version()}
    names |= {name: packages.version_of(name) or "missing" for name in SHOWN}
    return Setup(_device_line(), names, [text for text in problems if text])


def device() -> torch.device:
    """A CUDA GPU where there is one, else the CPU.

    Apple's GPU is passed over: it has no float64, in which the lessons compare.
    """
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def seed(number: int) -> None:
    """Start every random generator (Python, NumPy, torch on each device) at number."""
    import numpy
    import torch

    random.seed(number)
    numpy.random.seed(number)
    torch.manual_seed(number)


def measure_threads(steps: int = 20) -> dict[int, float]:
    """Milliseconds of one forward and backward of the tiny model, by number of threads.

    Tries 1, 2, 4, ... up to the machine's cores, in turns so that another program's
    work falls on all alike, and gives the median of the steps. The number of threads
    is afterwards what it was.
    """
    import torch

    from helpers import models

    model = models.classifier("tiny")
    ids = torch.randint(model.config.vocab_size, (16, 48))
    batch = {"input_ids": ids, "labels": ids[:, 0] % 2}
    cores = os.cpu_count() or 1
    times: dict[int, list[float]] = {2**i: [] for i in range(cores.bit_length())}
    before = torch.get_num_threads()
    try:
        for _ in range(steps + 1):
            for threads, measured in times.items():
                torch.set_num_threads(threads)
                begin = time.perf_counter()
                model(**batch).loss.backward()
                measured.append(1000 * (time.perf_counter() - begin))
    finally:
        torch.set_num_threads(before)
    # The first turn pays for what torch sets up once.
    return {n: round(median(all_[1:]), 1) for n, all_ in times.items()}


def _device_line() -> str:
    import torch

    kind = device().type
    if kind == "cuda":
        card = torch.cuda.get_device_properties(0)
        return f"cuda: {card.name}, {card.total_memory / 2**30:.1f} GiB"
    torch.set_num_threads(THREADS)
    return (
        f"cpu, computing with {THREADS} thread; for models this small more are often "
        "slower, which runtime.measure_threads() shows"
    )


@contextmanager
def without_advice() -> Iterator[None]:
    """Keeps back what transformers logs while it builds or loads a model."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
