"""Exercise 3.9 of lesson 3: a window that is exact, whatever it holds."""

from __future__ import annotations

import torch

from .. import runtime
from ..equivalence import compare, reference
from ..exercises import Exercise, Wrong, call
from .lesson_03_bench import accelerator
from .probe import Probe, micro_batches


def _exact_window(answer) -> str:
    for seed, sizes, ignored in ((46, [8, 8, 8, 4], 0), (47, [5, 7, 2], 1)):
        model = Probe(seed).to(runtime.device())
        window = [b.to(runtime.device()) for b in micro_batches(sizes, seed, ignored)]
        wanted = reference(model, window)
        with accelerator(1) as own:
            call(answer, own, own.prepare(model), window)
        if all(p.grad is None for p in model.parameters()):
            raise Wrong("There is no gradient in .grad: did you call backward?", hint=1)
        found = compare(model, wanted)
        if found.relative_error > 1e-9:
            _name_the_window(model, window, seed, found)
        if model.most_open > 1:
            raise Wrong(
                f"The gradient is exact, but {model.most_open} micro-batches were held "
                "in memory at once. Call backward inside the loop.",
                hint=1,
            )
    return "Exact for ragged micro-batches and ignored labels, at k = 1."


def _name_the_window(model, window, seed: int, found) -> None:
    rows = [len(batch["labels"]) for batch in window]
    targets = [int((batch["labels"] != -100).sum()) for batch in window]
    n = len(rows)
    known = {
        "This is the mean of the micro-batches' means: a row of the small one counts "
        "more than a row of a full one.": [1 / n] * n,
        "The means are added and nothing divides them: at k = 1 "
        "`accelerator.backward` divides by one.": [1.0] * n,
        "The sums are added and nothing divides them.": targets,
        "You divided by the number of micro-batches as well as by the targets.": [
            t / sum(targets) / n for t in targets
        ],
        "Multiplying by the number of micro-batches is one factor too many: at k = 1 "
        "`accelerator.backward` divides by one.": [
            t / sum(targets) * n for t in targets
        ],
        "Only the last micro-batch is in .grad: something clears it in between.": [
            *[0.0] * (n - 1),
            targets[-1] / sum(targets),
        ],
    }
    if rows != targets:
        known[
            "You counted rows. A label of -100 is no target: count the labels that "
            "are not -100."
        ] = [r / sum(rows) for r in rows]
    for words, weights in known.items():
        twin = Probe(seed).to(runtime.device())
        for batch, weight in zip(window, weights, strict=True):
            (twin(**batch).loss * weight).backward()
        pairs = zip(model.parameters(), twin.parameters(), strict=True)
        if all(torch.allclose(p.grad, t.grad, rtol=0, atol=1e-10) for p, t in pairs):
            raise Wrong(words, hint=0)
    raise Wrong(f"Held against the reference: {found}.", hint=1)


exact_window = Exercise(
    "3.9",
    "exact_window",
    _exact_window,
    hints=[
        "Count the targets of the whole window first. A micro-batch's mean loss times "
        "its own count is its sum of losses.",
        "For each batch: accelerator.backward(model(**batch).loss * its targets / all "
        "targets), where targets are (batch['labels'] != -100).sum().",
    ],
    lesson="03_accelerator",
)
