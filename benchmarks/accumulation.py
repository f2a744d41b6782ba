"""Memory and speed of the same update in ever smaller micro-batches."""

from __future__ import annotations

import torch

from benchmarks import cases, paired
from benchmarks.report import Check, Part, Setting, Spread
from helpers import memory, training

EFFECTIVE = 64
MICRO_BATCHES = (64, 32, 16, 8, 4, 2, 1)
SHAPE = {"width": 128, "layers": 2, "length": 64}
MOST_APART = 2  # percent


def run(setting: Setting) -> Part:
    """One update of AdamW a micro-batch size: peak, activations, samples a second."""
    sizes = (64, 8, 1) if setting.quick else MICRO_BATCHES
    rounds = 1 if setting.quick else 5
    shape = SHAPE | ({"length": 16} if setting.quick else {})
    case = cases.small("DistilBERT", **shape)
    torch.manual_seed(0)
    model = case.model().to(setting.device).train()
    optimizer = torch.optim.AdamW(model.parameters())
    windows = {rows: _window(case, rows) for rows in sizes}

    def update(rows: int) -> None:
        training.accumulate(model, windows[rows])
        training.update(model, optimizer)

    peaks, activations = {}, {}
    for rows in sizes:
        update(rows)
        with memory.Meter(model, optimizer) as meter:
            update(rows)
        peaks[rows] = meter.peak
        activations[rows] = _activations(model, case.make_batch(rows))
    ways = {str(rows): lambda rows=rows: lambda: update(rows) for rows in sizes}
    seconds = paired.in_turns(ways, rounds)
    floor = _floor(model, optimizer)
    part = Part(
        "The same update in smaller micro-batches",
        f"A DistilBERT of {sum(p.numel() for p in model.parameters()):,} weights, "
        f"{shape['length']} tokens, AdamW, effective batch {EFFECTIVE}. Activations: "
        "what `memory.Meter` counts as such at the end of one forward pass. Ideal: "
        "parameters, gradients and optimizer state, and the activations of one "
        "micro-batch; 64 × 1 lies below it, as its gradients come while activations "
        "go.",
        ["micro-batch × steps", "activations MiB", "of the full batch's ÷ m/64",
         "peak MiB", "peak ÷ ideal", "samples a second", "speed of the full batch's"],
    )  # fmt: skip
    apart = []
    for rows in sizes:
        share = activations[rows] / activations[EFFECTIVE] / (rows / EFFECTIVE)
        apart.append(abs(share - 1) * 100)
        taken = seconds[str(rows)]
        part.rows.append(
            [f"{rows} × {EFFECTIVE // rows}", activations[rows] / memory.MiB,
             f"{share:.4f}", peaks[rows] / memory.MiB,
             f"{peaks[rows] / (floor + activations[rows]):.3f}",
             round(EFFECTIVE / Spread.of(taken).median),
             paired.ratio(seconds[str(EFFECTIVE)], taken)]
        )  # fmt: skip
    what = "activations at micro-batch m, away from m/64 of the full batch's, most"
    small = peaks[1] / peaks[EFFECTIVE]
    part.checks = [
        Check(what, max(apart), "≤", MOST_APART, " %"),
        Check(
            "peak of 64 micro-batches of 1, of the full batch's", 100 * small, unit=" %"
        ),
    ]
    return part


def _window(case: cases.Case, rows: int) -> list:
    return [case.make_batch(rows) for _ in range(EFFECTIVE // rows)]


def _activations(model: torch.nn.Module, batch) -> int:
    device = next(model.parameters()).device
    batch = {name: t.to(device) for name, t in batch.items()}
    with memory.Meter(model) as meter:
        loss = model(**batch).loss
        made = meter.live["activations"]
    del loss
    return made


def _floor(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    with memory.Meter(model, optimizer) as meter:
        held = meter.live
    weights = sum(p.nbytes for p in model.parameters())
    return held["parameters"] + held["optimizer state"] + weights
