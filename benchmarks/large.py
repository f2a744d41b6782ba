"""Seconds and memory of forecasts of models too large to train here."""

from __future__ import annotations

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.report import Check, Part, Setting

LENGTH = 128
MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64)
SECONDS = {"distilbert-base": 15, "llama-8b": 60}
MOST_MEBIBYTES = 1536


def run(setting: Setting) -> Part:
    """Forecast presets, each in a process of its own that has nothing else in it."""
    names = ["distilbert-base"] if setting.quick else list(_presets())
    part = Part(
        "Seconds of a forecast",
        f"Presets of `python -m helpers.memory` with AdamW and {LENGTH} tokens, each "
        "in a new process: seconds from the call to the peaks of micro-batches "
        f"{', '.join(map(str, MICRO_BATCHES))}, and the most memory that the process "
        "ever held, libraries included.",
        ["preset", "million weights", "floor GiB", "peak GiB of 64 in one",
         "forecast s", "the process held, MiB"],
    )  # fmt: skip
    for name in names:
        weights, floor, peak, seconds, most_held = _apart(name, str(setting.device))
        part.rows.append(
            [name, weights / 1e6, floor / 2**30, peak / 2**30, seconds, most_held]
        )
        if name in SECONDS:
            what = f"forecast of {name}, any micro-batch"
            part.checks.append(Check(what, seconds, "≤", SECONDS[name], " s"))
        if most_held is not None and name == names[-1]:
            what = f"memory of the process that forecasts {name}"
            most = MOST_MEBIBYTES if setting.exact else None
            part.checks.append(Check(what, most_held, most and "≤", most, " MiB"))
    return part


def _presets():
    from helpers.memory.presets import PRESETS

    return PRESETS


def _apart(name: str, device: str):
    start = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=start) as pool:
        return pool.submit(_forecast, name, device).result()


def _forecast(name: str, device: str):
    """Weights, floor, peak, seconds, and MiB that this process has held at most."""
    from helpers import memory

    preset = _presets()[name]
    preset.make_batch(LENGTH)(1)
    import transformers  # its import is no part of a forecast

    transformers.logging.set_verbosity_error()
    begin = time.perf_counter()
    costs = memory.forecast(preset.make_model, preset.make_batch(LENGTH), device=device)
    peaks = [costs.peak(rows) for rows in MICRO_BATCHES]
    seconds = time.perf_counter() - begin
    return costs.weights, costs.floor, peaks[-1], seconds, held()


def held() -> float | None:
    """MiB that this process has held at most; None where the system cannot say."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux, whose ru_maxrss counts the starting process as well
        line = next(x for x in status.read_text().splitlines() if "VmHWM" in x)
        return int(line.split()[1]) / 2**10
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
