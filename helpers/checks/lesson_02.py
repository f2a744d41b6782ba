"""The exercises of lesson 2, Accumulate by hand."""

from __future__ import annotations

import math

import torch

from ..equivalence import compare, reference
from ..exercises import Choice, Exercise, Prediction, Wrong, call, number
from .lesson_02_loop import own_loop
from .probe import Probe, micro_batches

LESSON = "02_by_hand"
__all__ = [
    "after_window",
    "cannot",
    "memory_at_8",
    "own_loop",
    "scaled_loss",
    "total_updates",
    "update_now",
    "updates_made",
    "where_to_clip",
    "window_gradient",
    "window_size",
]


def _scaled_loss(answer) -> str:
    for seed, k in ((1, 4), (2, 3)):
        model = Probe(seed)
        loss = model(**micro_batches([5], seed)[0]).loss
        mean = number(loss.detach())  # read now: dividing in place is right as well
        share = call(answer, loss, k)
        if share is None:
            raise Wrong("Your function gave back None. Does it end with a `return`?")
        if not isinstance(share, torch.Tensor) or not share.requires_grad:
            raise Wrong(
                "What you return has lost its graph, so backward has nothing to "
                "follow. Keep the tensor: no .item(), no float(), no detach().",
                hint=1,
            )
        ratio = number(share.detach()) / mean
        if math.isclose(ratio, 1 / k, rel_tol=1e-9):
            continue
        if math.isclose(ratio, 1, rel_tol=1e-9):
            raise Wrong(
                f"The loss comes back undivided: {k} micro-batches would add up to a "
                f"gradient {k} times too large.",
                hint=0,
            )
        if math.isclose(ratio, k, rel_tol=1e-9):
            raise Wrong(
                "You multiplied. The sum has to come out as a mean: divide.", hint=0
            )
        raise Wrong(
            f"For a loss of {mean:.3f} and {k} accumulation steps I expected "
            f"{mean / k:.3f} and got {number(share.detach()):.3f}.",
            hint=1,
        )
    return "The shares of a window add up to the mean over its micro-batches."


scaled_loss = Exercise(
    "2.1",
    "scaled_loss",
    _scaled_loss,
    hints=[
        "backward adds into .grad. What must each of the k losses be, for the sum to "
        "be their mean?",
        "One line: return the loss tensor divided by accumulation_steps.",
    ],
    lesson=LESSON,
)


def _update_now(answer) -> str:
    for k in (4, 1, 3):
        got = [bool(call(answer, i, k)) for i in range(12)]
        want = [i % k == k - 1 for i in range(12)]
        if got == want:
            continue
        steps = [i for i in range(12) if got[i]]
        if got == [i % k == 0 for i in range(12)]:
            raise Wrong(
                f"With k = {k} this steps at i = {steps[:3]} and so on: i counts from "
                "0, so the first step comes after a single micro-batch.",
                hint=0,
            )
        if got == [not w for w in want]:
            raise Wrong(
                "This is true everywhere but at the end of a window: a remainder of 0 "
                "counts as False in Python.",
                hint=1,
            )
        raise Wrong(
            f"With k = {k} the step has to come at i = "
            f"{[i for i in range(12) if want[i]]}; yours comes at {steps}.",
            hint=0,
        )
    return "A step comes after every k-th micro-batch, counted from zero."


update_now = Exercise(
    "2.2",
    "update_now",
    _update_now,
    hints=[
        "Write down i + 1 for the micro-batches after which the step should come.",
        "The remainder of i + 1, divided by accumulation_steps, has to be zero.",
    ],
    lesson=LESSON,
)


def _after_window(answer) -> str:
    for rate in (0.5, 0.25):
        weight = torch.nn.Parameter(torch.tensor([1.0]))
        weight.grad = torch.tensor([1.0])
        optimizer = torch.optim.SGD([weight], lr=rate)
        plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda u: 0.1**u)
        calls = []
        optimizer.register_step_pre_hook(
            lambda opt, *_, calls=calls: calls.append(opt.param_groups[0]["lr"])
        )
        call(answer, optimizer, plan)
        left = weight.grad is not None and bool(weight.grad.abs().sum())
        if not calls:
            raise Wrong(
                "The optimizer made no step: the weights are as before.", hint=0
            )
        if len(calls) > 1:
            raise Wrong(f"The optimizer stepped {len(calls)} times; once is right.")
        if calls[0] != rate:
            raise Wrong(
                "The scheduler came first, so this step already used the next rate. "
                "Step the optimizer, then the scheduler.",
                hint=1,
            )
        if weight.item() == 1.0:
            raise Wrong(
                "The step found no gradient: it was zeroed before it could be used.",
                hint=1,
            )
        if plan.last_epoch != 1:
            raise Wrong(
                f"The scheduler made {plan.last_epoch} steps; one an update is right.",
                hint=0,
            )
        if left:
            raise Wrong(
                "The gradient is still there: it would be added to the next window's.",
                hint=0,
            )
    return "Step with the rate of now, plan the next rate, start from an empty .grad."


after_window = Exercise(
    "2.3",
    "after_window",
    _after_window,
    hints=[
        "Three calls: optimizer.step(), scheduler.step(), optimizer.zero_grad().",
        "The step uses the gradient and the rate of now; so it comes first, and what "
        "clears the gradient comes after it.",
    ],
    lesson=LESSON,
)


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

where_to_clip = Choice(
    "2.8",
    "where_to_clip",
    options={
        "a": "After each backward, the sum so far is cut, again and again: the parts "
        "no longer add up to the window's direction.",
        "b": "Once, after the last backward and before the step: the gradient of the "
        "whole window is there, and nothing has used it yet.",
        "c": "After the step the weights have moved already; clipping comes too late.",
    },
    right="b",
    hints=[
        "Clipping limits the length of the gradient that the optimizer uses.",
        "The bars above show what clipping after each backward does.",
    ],
    lesson=LESSON,
)

cannot = Choice(
    "2.10",
    "cannot",
    options={
        "a": "LayerNorm looks at one row at a time; the table shows rounding only.",
        "b": "BatchNorm in training mode takes mean and variance over the rows it "
        "sees: with micro-batches it is another function.",
        "c": "Dropout draws another mask; on average over the draws the gradient is "
        "the same.",
    },
    right="b",
    hints=[
        "Which of the three needs other rows to compute one row's output?",
        "Look at the table: which error does not go away?",
    ],
    lesson=LESSON,
)

memory_at_8 = Prediction(
    "2.11",
    "memory_at_8",
    unit="MiB",
    tolerance=1.25,
    explain="Activations shrink with the micro-batch; weights, gradients and "
    "optimizer state stay.",
    too_low="The floor stays: weights, gradients and optimizer state do not shrink "
    "with the micro-batch.",
    too_high="The activations shrink in proportion: a micro-batch of an eighth of the "
    "rows keeps an eighth of them.",
    hints=[
        "Split the peak at 64 rows in two: the floor, and what grows with the rows.",
        "floor + (peak at 64 - floor) * 8 / 64",
    ],
    lesson=LESSON,
)
