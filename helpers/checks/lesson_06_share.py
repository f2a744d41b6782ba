"""Exercise 6.2 of lesson 6: the weight of a micro-batch on several processes."""

from __future__ import annotations

import torch

from ..equivalence import Reference, compare, reference
from ..exercises import Exercise, Wrong, call, copied
from .probe import Batch, Probe, micro_batches

LESSON = "06_several_processes"
TOLERANCE = 1e-6  # a quotient of two counts in a tensor is in single precision
# Rows of the micro-batches of each process: two processes, three, and one alone.
WINDOWS = (([8, 5], [7, 3]), ([4, 6], [3, 1], [9, 2]), ([3, 4, 6],))


def _share(answer) -> str:
    for seed, sizes in enumerate(WINDOWS, 61):
        window = [micro_batches(own, seed + i) for i, own in enumerate(sizes)]
        model, weights = Probe(seed), []
        for rank, own in enumerate(window):
            for place, batch in enumerate(own):
                weights.append(_one(answer, model, batch, rank, place, sizes))
        # What is in .grad is the sum over the processes; DDP takes the mean.
        found = {n: p.grad / len(sizes) for n, p in model.named_parameters()}
        wanted = reference(model, [batch for own in window for batch in own])
        error = compare(found, Reference(wanted.gradient, 0.0, 0)).relative_error
        if error > TOLERANCE:
            raise Wrong(_why(weights, sizes, error), hint=0)
    return (
        "Every target has the same weight, whichever process has it. DDP's mean is "
        "undone beforehand."
    )


def _one(answer, model: Probe, batch: Batch, rank: int, place: int, sizes) -> float:
    """Let one micro-batch have its backward; what its mean loss was multiplied by."""
    mean = model(**batch).loss
    counts = [list(own) for own in sizes]
    found = call(answer, mean, rank, place, copied(counts))
    if not isinstance(found, torch.Tensor) or found.numel() != 1:
        raise Wrong("One loss is wanted back, a tensor with one number in it.", 1)
    if not found.requires_grad:
        raise Wrong(
            "The loss has lost its graph, so backward has nothing to follow: no "
            ".item(), no float(), no detach().",
            hint=1,
        )
    found.sum().backward()
    return found.item() / mean.item()


def _why(weights: list[float], sizes, error: float) -> str:
    world = len(sizes)
    everywhere = sum(map(sum, sizes))
    each = [(n, own) for own in sizes for n in own]
    known = {
        "The world size is missing: DDP takes the mean over the processes, so each "
        "gradient is divided by their number.": [n / everywhere for n, _ in each],
        "You divided by the targets of this process alone. A process with few targets "
        "then counts as much as one with many.": [n / sum(own) for n, own in each],
        "You divided by the accumulation steps and the processes. DDP divides by the "
        "processes itself, and micro-batches have unequal targets.": [
            1 / len(own) / world for _, own in each
        ],
        "This is the mean of means: a target of a small micro-batch counts too much.": [
            1 / len(own) for _, own in each
        ],
        "The mean loss goes backward as it is, and nothing divides.": [1.0] * len(each),
        "The targets of all are not in it.": [n * world for n, _ in each],
        "That is the sum of the losses, and nothing divides it.": [n for n, _ in each],
        "You divided by the world size, and DDP does so as well. Multiply.": [
            n / everywhere / world for n, _ in each
        ],
        "A mean was divided by the targets of all. Times its own targets it becomes a "
        "sum first.": [world / everywhere for _ in each],
    }
    for words, wrong in known.items():
        if all(
            abs(w - x) <= TOLERANCE * x for w, x in zip(weights, wrong, strict=True)
        ):
            return words
    return (
        f"With the targets {[list(own) for own in sizes]} the relative error of the "
        f"gradient is {error:.2g}."
    )


share = Exercise(
    "6.2",
    "share",
    _share,
    hints=[
        "A mean loss times its targets is a sum of losses. Divide it by the targets of "
        "all processes. Who divides after you?",
        "loss * counts[rank][number] / sum(sum(own) for own in counts) * len(counts)",
    ],
    lesson=LESSON,
)
