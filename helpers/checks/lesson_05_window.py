"""Exercise 5.5 of lesson 5: the exact gradient of a window of unequal texts."""

from __future__ import annotations

import torch

from .. import runtime
from ..equivalence import compare, reference
from ..exercises import Exercise, Wrong, call, copied
from ..texts import count_targets
from .lesson_05_model import Speaker, weighted, window

LESSON = "05_unequal_micro_batches"
TOLERANCE = 1e-6  # a quotient of two counts in a tensor is in single precision


def _exact_window(answer) -> str:
    windows = (
        window(61, ([9, 4], 0), ([5], 0), ([8, 3, 6], 0)),
        window(71, ([6, 6], 4), ([12], 0), ([4, 7], 0), ([3], 0)),
    )
    for seed, batches in enumerate(windows, 57):
        model = Speaker(seed).to(runtime.device())
        wanted = reference(model, batches)
        call(answer, model, copied(batches))
        if all(p.grad is None for p in model.parameters()):
            raise Wrong("There is no gradient in .grad: did you call backward?", hint=1)
        found = compare(model, wanted)
        if found.relative_error > TOLERANCE:
            _name_the_window(model, batches, seed, found)
        if model.most_open > 1:
            raise Wrong(
                f"The gradient is exact, but {model.most_open} micro-batches were held "
                "in memory at once. Call backward inside the loop.",
                hint=1,
            )
    return "Exact for texts of any length, and one micro-batch in memory at a time."


def _name_the_window(model, batches, seed: int, found) -> None:
    counts = [count_targets(batch) for batch in batches]
    labels = [int((batch["labels"] != -100).sum()) for batch in batches]
    rows = [len(batch["labels"]) for batch in batches]
    total, k = sum(counts), len(counts)
    known = {
        "This is the mean of the means: a target of a short micro-batch counts too "
        "much.": [1 / k] * k,
        "All labels were counted, the first of each row as well, which the loss "
        "leaves out: use `targets`.": [n / sum(labels) for n in labels],
        "A micro-batch's own count and the window's do not fit: one of them has the "
        "first label of each row in it.": [n / sum(labels) for n in counts],
        "The means are added, and nothing divides them.": [1.0] * k,
        "The sums of the losses are added, and nothing divides them.": counts,
        "Each mean is divided by the targets of the window. The model's loss is a mean "
        "already: make a sum of it first, times its own targets.": [1 / total] * k,
        "You divided by the number of micro-batches as well.": [
            n / total / k for n in counts
        ],
        "You weighted by rows, and rows have unequal numbers of targets.": [
            n / sum(rows) for n in rows
        ],
        "Only the last micro-batch is in .grad: something clears it in between.": [
            *[0.0] * (k - 1),
            counts[-1] / total,
        ],
    }
    for words, weights in known.items():
        twin = Speaker(seed).to(runtime.device())
        weighted(twin, batches, weights)
        pairs = zip(model.parameters(), twin.parameters(), strict=True)
        if all(
            p.grad is not None
            and torch.allclose(p.grad, q.grad, rtol=0, atol=TOLERANCE)
            for p, q in pairs
        ):
            raise Wrong(words, hint=0)
    raise Wrong(f"Held against the reference: {found}.", hint=1)


exact_window = Exercise(
    "5.5",
    "exact_window",
    _exact_window,
    hints=[
        "Count the targets of all micro-batches before the first backward. A mean loss "
        "times its own targets is a sum of losses.",
        "counts = [targets(batch) for batch in window]; then for each batch: "
        "(model(**batch).loss * its count / sum(counts)).backward()",
    ],
    lesson=LESSON,
)
