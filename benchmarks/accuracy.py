"""Forecast against measured peak, on everything that really runs here."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from benchmarks import cases
from benchmarks.report import Check, Part, Setting
from helpers import memory
from helpers.memory.presets import PRESETS
from helpers.memory.real import measured

WINDOWS = ((1, 1), (4, 1), (3, 3), (8, 2))  # rows, accumulation steps
QUICK = (("BERT", "AdamW", "plain"), ("GPT-2", "Adafactor", "checkpointing"),
         ("Llama", "SGD with momentum", "bf16"), ("ViT", "AdamW", "plain"))  # fmt: skip
BASE, LENGTH = "distilbert-base", 64
BASE_WINDOWS = ((2, 2), (6, 1))
Combination = tuple[cases.Case, str, str]


def run(setting: Setting) -> Part:
    """Forecast each combination, then train it for real with several windows."""
    part = Part(
        "Forecast against measured",
        "Peak bytes of an update, forecast and then measured by `memory.Meter` (on a "
        "GPU what its allocator reserved), for micro-batches × accumulation steps of "
        f"{_said(WINDOWS)} on small models and {_said(BASE_WINDOWS)} on "
        f"DistilBERT-base with {LENGTH} tokens. Errors in bytes.",
        ["model", "optimizer", "variant", "windows", "exact", "largest error",
         "of the peak", "forecast s"],
    )  # fmt: skip
    errors, shares, times = [], [], []
    for (case, optimizer, variant), windows in _grid(setting):
        seconds, found = compare(case, optimizer, variant, windows, setting)
        wrong = [abs(real - told) for told, real in found]
        relative = [abs(real - told) / real for told, real in found]
        part.rows.append(
            [case.name, optimizer, variant, len(found), wrong.count(0), max(wrong),
             f"{max(relative):.4%}", seconds]
        )  # fmt: skip
        errors, shares = errors + wrong, shares + relative
        times.append(seconds)
    exact = ("=", 0), ("≤", 0.5)
    median, worst = exact if setting.exact else ((None, None), (None, None))
    errors.sort()
    part.checks = [
        Check("peaks forecast and measured", len(errors)),
        Check("forecast error, median", errors[len(errors) // 2], *median, " bytes"),
        Check("forecast error, worst", 100 * max(shares), *worst, " %"),
    ]
    return part


def compare(
    case: cases.Case, optimizer: str, variant: str, windows, setting: Setting
) -> tuple[float, list[tuple[int, int]]]:
    """Seconds of the forecast, and (forecast, measured) bytes of each window."""
    start = time.perf_counter()
    costs = memory.forecast(
        case.model,
        case.make_batch,
        cases.OPTIMIZERS[optimizer],
        device=setting.device,
        **cases.VARIANTS[variant],
    )
    told = [costs.peak(*window) for window in windows]
    seconds = time.perf_counter() - start
    real = [measured(costs.make, costs.settings, *window) for window in windows]
    return seconds, list(zip(told, real, strict=True))


def _grid(setting: Setting) -> Iterator[tuple[Combination, tuple]]:
    if setting.quick:
        for name, *rest in QUICK:
            yield (cases.small(name), *rest), WINDOWS
        return
    for name, optimizer, variant in itertools.product(
        cases.NAMES, cases.OPTIMIZERS, cases.VARIANTS
    ):
        yield (cases.small(name), optimizer, variant), WINDOWS
    preset = PRESETS[BASE]
    base = cases.Case(BASE, preset.make_model, preset.make_batch(LENGTH))
    for optimizer, variant in itertools.product(cases.OPTIMIZERS, cases.VARIANTS):
        yield (base, optimizer, variant), BASE_WINDOWS


def _said(windows) -> str:
    return ", ".join(f"{rows} × {steps}" for rows, steps in windows)
