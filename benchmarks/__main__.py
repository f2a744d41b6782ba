"""Runs the benchmark and writes docs/bench.json, docs/bench.md and README.md.

python -m benchmarks                        all of it, about 15 minutes on two cores
python -m benchmarks --only loops,meter     these parts; the others stay as they are
python -m benchmarks --quick                a sample, which is shown and not kept
python -m benchmarks --readme               writes README.md anew from the file

Exits 1 where a promise is missed. Where there is a CUDA device it is measured after
the CPU, by the same code; that part has not been run yet.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
import warnings
from dataclasses import replace

import torch

from benchmarks import document
from benchmarks.report import Part, Setting, markdown

PARTS = {  # name -> module and function; those of time first, while all is warm
    "loops": "speed.run",
    "meter": "metering.run",
    "accumulation": "accumulation.run",
    "accuracy": "accuracy.run",
    "forecasts": "large.run",
    "published": "published.run",
    "plans": "budgets.run",
    "lessons": "costs.run_lessons",
    "audits": "costs.run_audits",
}
CORES = 2


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and write; returns the exit status."""
    asked = _arguments(arguments)
    if asked.readme:
        document.write(document.load())
        return 0
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    _quiet()
    kinds = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    kept = True
    for kind in kinds:
        setting = Setting(torch.device(kind), asked.quick)
        for name in asked.only:
            begin = time.perf_counter()
            part = _measure(name, setting)
            print(f"\n{part.title}, {kind} ({time.perf_counter() - begin:.0f} s)")
            print(markdown(part.columns, part.rows), *part.checks, sep="\n", flush=True)
            kept = kept and all(check.kept for check in part.checks)
            found = {name: part.as_json()}
            if not asked.quick:  # what is measured is kept, whatever comes after
                earlier = document.load()  # now: another run may have written
                machine = _machine(setting)
                document.write(document.merged(earlier, kind, machine, found))
    return not kept


def _measure(name: str, setting: Setting) -> Part:
    module, function = PARTS[name].split(".")
    run = getattr(importlib.import_module(f"benchmarks.{module}"), function)
    torch.set_num_threads(1)
    part = run(setting)
    if setting.device.type == "cpu":
        return part
    # What was promised is promised of the CPU, to the byte; a GPU's are figures.
    part.checks = [replace(check, sign=None) for check in part.checks]
    return part


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measures what the course promises."
    )
    parser.add_argument("--quick", action="store_true", help="a sample, not kept")
    parser.add_argument("--readme", action="store_true", help="only write the tables")
    parser.add_argument(
        "--only", default=",".join(PARTS), help="parts, by comma: %(default)s"
    )
    asked = parser.parse_args(arguments)
    asked.only = asked.only.split(",")
    for name in asked.only:
        if name not in PARTS:
            parser.error(f"there is no part {name!r}; there are {', '.join(PARTS)}")
    return asked


def _machine(setting: Setting) -> dict[str, str]:
    import accelerate
    import transformers

    device = f"{CORES} CPU cores"
    if setting.device.type == "cuda":
        card = torch.cuda.get_device_properties(0)
        device = f"{card.name}, {card.total_memory / 2**30:.0f} GiB"
    versions = f"torch {torch.__version__.split('+')[0]}, transformers "
    versions += f"{transformers.__version__}, accelerate {accelerate.__version__}"
    return {
        "device": device,
        "versions": versions,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _quiet() -> None:
    from helpers import runtime

    for name, value in runtime.QUIET.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import transformers

    transformers.logging.set_verbosity_error()
    warnings.filterwarnings("ignore", message=".*pin_memory.*")


if __name__ == "__main__":
    sys.exit(main())
