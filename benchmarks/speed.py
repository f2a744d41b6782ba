"""Samples per second of the shared loop against three others on the same work."""

from __future__ import annotations

import tempfile

import torch

from benchmarks import loops, paired
from benchmarks.report import Check, Part, Setting, Spread
from helpers import data, models
from helpers.equivalence.twin import undisturbed

MICRO_BATCH, STEPS = 8, 4
SAME = 1e-5  # relative distance of the weights after an epoch


def run(setting: Setting) -> Part:
    """Time the four loops in turns, after one epoch each that must agree."""
    rounds, windows = (3, 4) if setting.quick else (12, 16)
    rows = windows * STEPS * MICRO_BATCH
    loader = data.loader(data.load("tickets"), MICRO_BATCH, rows=rows)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, undisturbed():
        work = loops.Work(
            models.classifier("tiny"), loader, STEPS, folder, setting.device
        )
        ready = {name: way(work) for name, way in loops.WAYS.items()}
        apart = _apart(ready, work)
        ways = {name: prepare for name, (_, prepare) in ready.items()}
        seconds = paired.in_turns(ways, rounds)
    base = seconds["bare loop"]
    part = Part(
        "Four loops on the same work",
        f"The tiny classifier on {rows} tickets, micro-batches of {MICRO_BATCH}, "
        f"k = {STEPS}, SGD, clipping and a scheduler in each, one thread, {rounds} "
        "rounds. What is made beforehand is not timed: the Accelerator and what it "
        "prepares, the Trainer. No progress bar and no log. The Trainer is made to "
        "divide by k, which it leaves out for this head.",
        ["loop", "samples a second", "ratio to the bare loop (quartiles)"],
        checks=[
            Check("weights after an epoch, most apart", apart, "≤", SAME),
        ],
    )
    for name, taken in seconds.items():
        speed = Spread.of([rows / t for t in taken])
        part.rows.append([name, round(speed.median), paired.ratio(base, taken)])
    for name, least in (("bare loop", 0.98), ("Accelerate", 1.0), ("Trainer", 1.0)):
        spread = paired.ratio(seconds[name], seconds["shared loop"])
        what = f"speed of the shared loop, as a multiple of the {name}'s"
        if name == "Accelerate":
            what = what.replace("the Acc", "Acc")
        part.checks.append(Check(what, spread, "≥", least, " ×"))
    return part


def _apart(ready, work: loops.Work) -> float:
    """Train an epoch each; the largest relative distance from the bare loop's weights.

    As a share of the distance trained, so that no loop passes by not training.
    """
    found = {}
    for name, (model, prepare) in ready.items():
        prepare()()
        found[name] = _weights(model)
    trained = found["bare loop"] - _weights(work.start)
    distance = max((w - found["bare loop"]).norm() for w in found.values())
    return float(distance / trained.norm())


def _weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().cpu().double().flatten() for p in model.parameters()])
