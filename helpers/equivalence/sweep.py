"""Audits every architecture of a task, each in a process of its own."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .heads import Result

COLUMNS = ("model", "head", "exact", "ratios", "residual", "why", "remedy")
SHOWN = ("model", "exact", "ratios", "residual", "why")


def sweep(
    models: Sequence[str],
    task: str,
    steps: int,
    *,
    seconds: float = 120,
    jobs: int = 1,
    done: Callable[[], object] = lambda: None,
) -> list[Result]:
    """Audit these architectures; results come in their order, whatever fails.

    Args:
        seconds: what one of them may take.
        jobs: processes at a time.
        done: called after each.
    """

    def one(model: str) -> Result:
        result = _in_process(model, task, steps, seconds)
        done()
        return result

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, models))


def _in_process(model: str, task: str, steps: int, seconds: float) -> Result:
    command = [sys.executable, "-m", "helpers.equivalence", "--json"]
    command += ["--model", model, "--task", task, f"--accumulation-steps={steps}"]
    result = Result(model, task, steps)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    try:
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
        lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
        return Result(**json.loads(lines[-1]))
    except subprocess.TimeoutExpired:
        result.why = f"not done after {seconds:g} seconds"
    except (IndexError, ValueError, TypeError):
        last = (run.stderr.strip().splitlines() or ["it said nothing"])[-1]
        result.why = f"the process ended with {run.returncode}: {last}"
    return result


def table(results: Sequence[Result]) -> str:
    """The results as text, a line each, and their number by what was said."""
    rows = [result.row() for result in results]
    widths = {
        name: max(len(name), *(len(str(row[name])) for row in rows)) if rows else 0
        for name in SHOWN[:-1]
    }
    lines = ["  ".join([*(f"{n:<{w}}" for n, w in widths.items()), SHOWN[-1]])]
    lines += [
        "  ".join([*(f"{row[n]!s:<{w}}" for n, w in widths.items()), str(row["why"])])
        for row in rows
    ]
    counted = Counter(result.said for result in results)
    lines.append(", ".join(f"{number} {said}" for said, number in counted.items()))
    return "\n".join(line.rstrip() for line in lines)


def write_csv(results: Sequence[Result], path: Path) -> None:
    """The results as a file, a row each; the seconds, which differ, are left out."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(result.row() for result in results)
