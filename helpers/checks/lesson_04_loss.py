"""Exercise 4.6 of lesson 4: a loss function that makes a Trainer exact."""

from __future__ import annotations

import torch

from ..equivalence import compare, reference
from ..exercises import Exercise, Wrong, call
from .probe import Probe, micro_batches

LESSON = "04_trainer"
CASES = (([5, 8, 4], 2), ([6, 6, 6, 3], 0))  # rows of each micro-batch, ignored labels


def _exact_loss(answer) -> str:
    from transformers.modeling_outputs import SequenceClassifierOutput

    for seed, (sizes, ignored) in enumerate(CASES, 61):
        model, window = Probe(seed), micro_batches(sizes, seed, ignored)
        wanted = reference(model, window)
        count = torch.tensor(sum(_targets(batch) for batch in window))
        for batch in window:
            outputs = SequenceClassifierOutput(logits=model(**batch).logits)
            labels = batch["labels"].clone()
            loss = call(answer, outputs, labels, num_items_in_batch=count.clone())
            _backward(loss)
        if all(p.grad is None for p in model.parameters()):
            raise Wrong(
                "No gradient reaches the weights: keep the tensor, no .item(), no "
                "detach().",
                hint=1,
            )
        found = compare(model, wanted)
        if found.relative_error > 1e-9:
            _name_the_fault(model, window, seed, ignored, found)
    return "Exact for ragged micro-batches and ignored labels: each target counts once."


def _targets(batch) -> int:
    return int((batch["labels"] != -100).sum())


def _backward(loss) -> None:
    if loss is None:
        raise Wrong(
            "Nothing came back. outputs.loss is None here, as the Trainer keeps the "
            "labels for your function: take the loss of outputs.logits yourself.",
            hint=0,
        )
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise Wrong(
            "One loss is wanted, a tensor with a single number in it. Is it one loss "
            "a row?",
            hint=1,
        )
    if not loss.requires_grad:
        raise Wrong(
            "The loss has lost its graph, so backward has nothing to follow: no "
            ".item(), no float(), no detach().",
            hint=1,
        )
    loss.reshape(()).backward()


def _name_the_fault(model, window, seed, ignored, found) -> None:
    rows = [len(batch["labels"]) for batch in window]
    targets = [_targets(batch) for batch in window]
    total, k = sum(targets), len(window)
    known = {
        "This is each micro-batch's own mean, and nothing divides the sum of them: "
        f"with {k} micro-batches the gradient is about {k} times too large.": [1.0] * k,
        "The mean is divided by num_items_in_batch, so it is divided twice. Take the "
        "sum of the losses.": [1 / total] * k,
        "The losses are summed, and nothing divides them.": targets,
        "This is the mean of the means: a row of a small micro-batch counts more than "
        "the others. The last micro-batch has fewer targets.": [1 / k] * k,
    }
    if ignored:
        known[
            "You divided by the rows of the micro-batch; num_items_in_batch has the "
            "targets of the whole window."
        ] = [t / r for t, r in zip(targets, rows, strict=True)]
    for words, weights in known.items():
        twin = Probe(seed)
        for batch, weight in zip(window, weights, strict=True):
            (twin(**batch).loss * weight).backward()
        pairs = zip(model.parameters(), twin.parameters(), strict=True)
        if all(
            p.grad is not None and torch.allclose(p.grad, q.grad, rtol=0, atol=1e-10)
            for p, q in pairs
        ):
            raise Wrong(words, hint=0)
    raise Wrong(f"Held against the reference: {found}.", hint=1)


exact_loss = Exercise(
    "4.6",
    "exact_loss",
    _exact_loss,
    hints=[
        "Each micro-batch adds the sum of its losses, divided by the targets of the "
        "whole window. The Trainer has counted those for you.",
        'cross_entropy(outputs.logits, labels, reduction="sum") / num_items_in_batch',
    ],
    lesson=LESSON,
)
