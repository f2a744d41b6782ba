"""What it costs to measure: a training step under a meter against a bare one."""

from __future__ import annotations

import torch

from benchmarks import paired
from benchmarks.report import Check, Part, Setting, Spread
from helpers import data, memory, models, training
from helpers.memory.presets import PRESETS


def run(setting: Setting) -> Part:
    """A window of one micro-batch and its update, with and without `Meter`."""
    part = Part(
        "Cost of measuring",
        "One micro-batch forward and backward and an AdamW update, bare and under "
        "`memory.Meter`, in turns, on one thread. The meter runs as in "
        "`training.train(meter=...)`: its peak starts anew with each step.",
        ["model", "micro-batch", "bare ms", "metered ms", "ratio (quartiles)"],
    )
    for name, model, batch, rounds, number, most in _cases(setting):
        taken = _timed(model.to(setting.device), batch, rounds, number)
        spread = paired.ratio(taken["metered"], taken["bare"])
        each = 1000 / number  # milliseconds of one step
        times = [Spread.of(taken[way]).median * each for way in ("bare", "metered")]
        shape = " × ".join(map(str, batch["input_ids"].shape))
        part.rows.append([name, shape, *times, spread])
        what = f"a step under the meter, as a multiple of a bare one, {name}"
        part.checks.append(Check(what, spread, "≤", most, " ×"))
    return part


def _cases(setting: Setting):
    rows = next(iter(data.loader(data.load("tickets"), 16)))
    tiny = models.classifier("tiny")
    yield "tiny", tiny, dict(rows), 5 if setting.quick else 40, 10, 2.0
    if not setting.quick:
        base = PRESETS["distilbert-base"]
        batch = base.make_batch(128)(8)
        yield "DistilBERT-base", base.make_model(), batch, 5, 1, 1.05


def _timed(model, batch, rounds: int, number: int) -> paired.Seconds:
    optimizer = torch.optim.AdamW(model.train().parameters())

    def step() -> None:
        training.accumulate(model, [batch])
        training.update(model, optimizer)

    def steps() -> None:
        for _ in range(number):
            step()

    def metered() -> None:
        with memory.Meter(model, optimizer) as meter:
            for _ in range(number):
                meter.reset_peak()
                step()

    ways = {"bare": lambda: steps, "metered": lambda: metered}
    return paired.in_turns(ways, rounds)
