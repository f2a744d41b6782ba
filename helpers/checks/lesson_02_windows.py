"""Exercises 2.4 to 2.7 of lesson 2: short windows, targets, number of updates."""

from __future__ import annotations

import math

import torch

from ..equivalence import compare, reference
from ..exercises import Exercise, Wrong, call, number
from .probe import Probe, micro_batches

LESSON = "02_by_hand"


def _updates_made(answer, measured) -> str:
    guess, measured = number(answer), number(measured)
    if guess == measured:
        return f"It made {measured:.0f}: the last two micro-batches waited in vain."
    if guess == measured + 1:
        raise Wrong(
            f"It made {measured:.0f}, one less. The last window is short, and its last "
            "micro-batch is no multiple of the accumulation steps.",
            hint=0,
        )
    if guess == 10:
        raise Wrong("That is the number of micro-batches; steps come less often.")
    raise Wrong(f"It made {measured:.0f}.", hint=1)


updates_made = Exercise(
    "2.4",
    "updates_made",
    _updates_made,
    hints=[
        "List i + 1 from 1 to the last micro-batch and mark the multiples of 4.",
        "4 and 8 are the multiples of 4 up to 10.",
    ],
    lesson=LESSON,
    kind="Prediction",
)


def _window_size(answer) -> str:
    for batches, k in ((10, 4), (7, 3), (8, 4)):
        got = [number(call(answer, i, batches, k)) for i in range(batches)]
        want = [min(k, batches - i // k * k) for i in range(batches)]
        if got == want:
            continue
        if got == [k] * batches:
            raise Wrong(
                f"You give {k} for all of {batches} micro-batches; the last window has "
                f"only {want[-1]}.",
                hint=0,
            )
        if got == [min(k, batches - i) for i in range(batches)]:
            raise Wrong(
                "The size shrinks inside the last window. Its micro-batches share one "
                "window, so all of them need the same number.",
                hint=1,
            )
        raise Wrong(
            f"For {batches} micro-batches and k = {k} I expected {want}; "
            f"you gave {[int(g) for g in got]}.",
            hint=0,
        )
    return "Each micro-batch is divided by the size of the window it is really in."


window_size = Exercise(
    "2.5",
    "window_size",
    _window_size,
    hints=[
        "The window that holds micro-batch i starts at i // accumulation_steps * "
        "accumulation_steps. How many micro-batches are left from there?",
        "Take the smaller of accumulation_steps and what is left from the start of "
        "the window.",
    ],
    lesson=LESSON,
)


def _window_gradient(answer) -> str:
    cases = (([8, 8, 8, 4], 0), ([5, 7, 2], 1))
    for seed, (sizes, ignored) in enumerate(cases, 11):
        model, window = Probe(seed), micro_batches(sizes, seed, ignored)
        wanted = reference(model, window)
        call(answer, model, window)
        if all(p.grad is None for p in model.parameters()):
            raise Wrong("There is no gradient in .grad: did you call backward?", hint=0)
        found = compare(model, wanted)
        if found.relative_error < 1e-9:
            if model.most_open > 1:
                raise Wrong(
                    f"The gradient is exact, but {model.most_open} micro-batches were "
                    "held in memory at once. Call backward inside the loop.",
                    hint=1,
                )
            continue
        _name_the_fault(model, window, seed, ignored, found)
    return (
        "Exact for ragged micro-batches and ignored labels, one micro-batch in memory "
        "at a time."
    )


def _name_the_fault(model, window, seed, ignored, found) -> None:
    rows = [len(batch["labels"]) for batch in window]
    targets = [int((batch["labels"] != -100).sum()) for batch in window]
    known = {
        "This is the mean of the micro-batches' means: a row of the small one counts "
        "more than a row of a full one.": [1 / len(rows)] * len(rows),
        "The means are added and nothing divides them.": [1.0] * len(rows),
        "The sums are added and nothing divides them.": targets,
        "Only the last micro-batch is in .grad: something clears it in between.": [
            *[0.0] * (len(rows) - 1),
            targets[-1] / sum(targets),
        ],
    }
    if ignored:
        known[
            "You counted rows. A label of -100 is no target: count the labels that "
            "are not -100."
        ] = [r / sum(rows) for r in rows]
    for words, weights in known.items():
        twin = Probe(seed)
        for batch, weight in zip(window, weights, strict=True):
            (twin(**batch).loss * weight).backward()
        wrong = {name: p.grad for name, p in twin.named_parameters()}
        if all(
            torch.allclose(p.grad, wrong[name], rtol=0, atol=1e-10)
            for name, p in model.named_parameters()
            if p.grad is not None
        ):
            raise Wrong(words, hint=0)
    raise Wrong(f"Held against the reference: {found}.", hint=1)


window_gradient = Exercise(
    "2.6",
    "window_gradient",
    _window_gradient,
    hints=[
        "Count the targets of the whole window first. A micro-batch's mean loss times "
        "its own count is its sum of losses.",
        "For each batch: (model(**batch).loss * its targets / all targets).backward(), "
        "where targets are (batch['labels'] != -100).sum().",
    ],
    lesson=LESSON,
)


def _total_updates(answer) -> str:
    cases = ((2036, 8, 4, 3), (80, 8, 5, 2), (10, 4, 4, 7), (33, 8, 4, 2))
    for rows, size, k, epochs in cases:
        got = number(call(answer, rows, size, k, epochs))
        want = math.ceil(math.ceil(rows / size) / k) * epochs
        if got == want:
            continue
        given = f"{rows} rows, micro-batches of {size}, k = {k}, {epochs} epochs"
        if got == math.ceil(rows / size) * epochs:
            raise Wrong(
                f"{given}: {got:.0f} is the number of micro-batches. The scheduler "
                "steps once an update.",
                hint=0,
            )
        if got < want and got in (
            rows // (size * k) * epochs,
            rows // size // k * epochs,
        ):
            raise Wrong(
                f"{given}: you drop the short last window of each epoch; {want} "
                f"updates are made, you say {got:.0f}.",
                hint=1,
            )
        if got < want:
            raise Wrong(
                f"{given}: {want} updates are made, you say {got:.0f}. A window never "
                "reaches into the next epoch.",
                hint=1,
            )
        raise Wrong(f"{given}: {want} updates are made, you say {got:g}.", hint=1)
    return "Round up inside the epoch, then multiply by the epochs."


total_updates = Exercise(
    "2.7",
    "total_updates",
    _total_updates,
    hints=[
        "How many micro-batches are there in an epoch, the ragged last one included? "
        "How many windows do they make?",
        "math.ceil twice: rows / micro_batch, then that / accumulation_steps; the "
        "epochs multiply the result.",
    ],
    lesson=LESSON,
)
