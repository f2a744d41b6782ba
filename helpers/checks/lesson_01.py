"""The exercises of lesson 1, The memory limit."""

from __future__ import annotations

import contextlib
import io

import torch

from ..exercises import Choice, Exercise, Prediction, Wrong, call, close, number

LESSON = "01_memory_limit"


def _spread(answer) -> str:
    for seed, (draws, weights) in enumerate(((7, 5), (3, 11)), 1):
        generator = torch.Generator().manual_seed(seed)
        gradients = torch.randn(
            draws, weights, generator=generator, dtype=torch.float64
        )
        full = torch.randn(weights, generator=generator, dtype=torch.float64)
        off = gradients - full
        got = number(call(answer, gradients.clone(), full.clone()))
        if close(got, off.square().sum(1).mean().item(), 1e-6):
            continue
        known = {
            off.square().mean().item(): "You averaged over the weights too. A squared "
            "distance is the sum over the weights; only the batches are averaged.",
            off.norm(dim=1)
            .mean()
            .item(): "This is the mean distance; square it before "
            "you average over the batches.",
            off.square()
            .sum()
            .item(): "This is the sum over the batches; the spread is their mean.",
            (gradients.mean(0) - full).square().sum().item(): "You averaged the "
            "gradients first, and their errors cancelled. Square first, then average.",
            gradients.square()
            .sum(1)
            .mean()
            .item(): "This is the squared length of the "
            "gradients. Subtract the full gradient first.",
        }
        for value, words in known.items():
            if close(got, value, 1e-6):
                raise Wrong(words, hint=0)
        raise Wrong(
            f"For {draws} gradients of {weights} weights I expected "
            f"{off.square().sum(1).mean().item():.4f} and got {got:.4f}.",
            hint=1,
        )
    return "Squared distance of each batch's gradient, averaged over the batches."


spread = Exercise(
    "1.1",
    "spread",
    _spread,
    hints=[
        "Three steps: the difference to the full gradient, its squared length for each "
        "batch, the mean over the batches.",
        "((gradients - full) ** 2) has shape (draws, weights): sum over axis 1, then "
        "take the mean.",
    ],
    lesson=LESSON,
)


def _factor(answer) -> str:
    got = number(answer)
    if got == 4:
        return "Four times the rows for half the distance: steadiness has its price."
    if got == 2:
        raise Wrong(
            "Twice the rows halve the spread. The distance is the root of the spread.",
            hint=0,
        )
    raise Wrong(f"With {got:g} times the rows the distance is not halved.", hint=1)


factor = Exercise(
    "1.2",
    "factor",
    _factor,
    hints=[
        "The spread falls as 1/B, the distance as the square root of 1/B.",
        "The square root of what is 2?",
    ],
    lesson=LESSON,
    kind="Question",
)


def _floor_bytes(answer) -> str:
    for weights, each in ((1000, 8), (77_762, 4)):
        got = number(call(answer, weights, each))
        want = 4 * weights * each
        if got == want:
            continue
        known = {
            4 * weights: "You counted numbers, not bytes.",
            weights * each: "These are the parameters alone.",
            2
            * weights
            * each: "AdamW's state is missing: two numbers for each weight.",
            3 * weights * each: "One kind is missing: parameters, gradients, and two "
            "numbers of state for each weight.",
        }
        if got in known:
            raise Wrong(known[got], hint=0)
        raise Wrong(
            f"For {weights} weights of {each} bytes I expected {want:,} bytes and got "
            f"{got:,.0f}.",
            hint=1,
        )
    if number(call(answer, 10)) != 160:
        raise Wrong("Without bytes_each a number has 4 bytes, as in float32.", hint=1)
    return "Four numbers for each weight: itself, its gradient, two of AdamW."


floor_bytes = Exercise(
    "1.3",
    "floor_bytes",
    _floor_bytes,
    hints=[
        "How many numbers does training keep for each weight? Count the weight itself, "
        "its gradient, and what AdamW remembers.",
        "Four numbers for each weight, bytes_each bytes for each number.",
    ],
    lesson=LESSON,
)

peak_at_64 = Prediction(
    "1.4",
    "peak_at_64",
    unit="MiB",
    tolerance=1.15,
    explain="Four times the rows, four times the activations, and the rest as before.",
    too_low="Activations grow with the rows: from 16 to 64 rows they are four times as "
    "large.",
    too_high="Weights and optimizer state do not grow with the rows; only the "
    "activations do.",
    hints=[
        "Which lines of the table depend on the number of rows?",
        "Four times the activations, plus the other lines as they are.",
    ],
    lesson=LESSON,
)


class _Bug(Exception):
    """An error that has nothing to do with memory."""


def _largest_that_fits(answer) -> str:
    for limit, sizes, want in ((16, [64, 32, 16, 8], 16), (100, [96, 48], 96)):
        tried: list[int] = []

        def step(size: int, limit: int = limit, tried: list[int] = tried) -> None:
            tried.append(size)
            if size > limit:
                raise torch.OutOfMemoryError("The device is out of memory.")

        with contextlib.redirect_stdout(io.StringIO()):
            got = call(answer, step, list(sizes))
        if got is None:
            raise Wrong("Your function gave back None. Does it end with a `return`?")
        got = number(got)
        if got != want:
            if got == sizes[-1] and len(tried) == len(sizes):
                raise Wrong(
                    f"You go on to the smallest size; {want} fits already. Return at "
                    "the first one that completes.",
                    hint=0,
                )
            raise Wrong(
                f"With room for {limit} rows and the sizes {sizes} I expected {want} "
                f"and got {got:g}.",
                hint=1,
            )
        if tried != sizes[: sizes.index(want) + 1]:
            raise Wrong(
                f"The answer is right, but you tried {tried}: start with the largest "
                "and stop at the first that completes.",
                hint=0,
            )

    def broken(size: int) -> None:
        raise _Bug("the labels are missing")

    with contextlib.redirect_stdout(io.StringIO()):
        try:
            answer(broken, [4, 2])
        except _Bug:
            return "Only running out of memory is caught; any other error still shows."
    raise Wrong(
        "Your code swallowed an error that was not about memory, so a real mistake "
        "would go unseen. Catch torch.OutOfMemoryError and nothing else.",
        hint=1,
    )


largest_that_fits = Exercise(
    "1.5",
    "largest_that_fits",
    _largest_that_fits,
    hints=[
        "A for loop over the sizes, and in it try: step(size), then return size.",
        "except torch.OutOfMemoryError: continue. Nothing else is caught.",
    ],
    lesson=LESSON,
)

what_it_buys = Choice(
    "1.6",
    "what_it_buys",
    options={
        "a": "The same rows go through the same model, in smaller pieces: that takes "
        "as long or longer.",
        "b": "Only the activations of one small batch are in memory at a time, and the "
        "update is the large batch's.",
        "c": "Row for row the large batch was behind in the figure above.",
    },
    right="b",
    hints=[
        "Which of the three did the memory limit take away?",
        "Look again at what grew with the batch in the bars.",
    ],
    lesson=LESSON,
)
