"""Exercise 5.6 of lesson 5: what to hand to `accelerator.backward`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from accelerate.state import AcceleratorState, PartialState

from ..exercises import Exercise, Wrong, call
from .lesson_03_bench import accelerator

LESSON = "05_unequal_micro_batches"
# accumulation steps, processes, mean loss, targets of the micro-batch, of the window
CASES = ((4, 3, 0.75, 21, 168), (4, 1, 2.5, 30, 150), (2, 1, 1.25, 64, 96))


def _share(answer) -> str:
    for steps, processes, mean, count, window in CASES:
        with accelerator(steps) as own:
            loss = torch.tensor(mean, dtype=torch.float64, requires_grad=True)
            with _pretending(processes):
                found = call(answer, own, loss, count, torch.tensor(window))
        if not isinstance(found, torch.Tensor) or found.numel() != 1:
            raise Wrong("One loss is wanted back, a tensor with one number in it.", 1)
        if not found.requires_grad:
            raise Wrong(
                "The loss has lost its graph, so backward has nothing to follow: no "
                ".item(), no float(), no detach().",
                hint=1,
            )
        wanted = mean * count / window * steps * processes
        if abs(found.item() - wanted) > 1e-6 * wanted:
            raise Wrong(_why(found.item(), steps, processes, mean, count, window), 0)
    return "What Accelerate and the processes divide by is multiplied in beforehand."


@contextlib.contextmanager
def _pretending(processes: int) -> Iterator[None]:
    """Whatever of Accelerate is asked, it says that there are so many processes."""
    shared = [state._shared_state for state in (PartialState, AcceleratorState)]
    before = [state["num_processes"] for state in shared]
    try:
        for state in shared:
            state["num_processes"] = processes
        yield
    finally:
        for state, number in zip(shared, before, strict=True):
            state["num_processes"] = number


def _why(found, steps, processes, mean, count, window) -> str:
    right = mean * count / window
    known = {
        right * steps: "On one process that is right. On several their gradients are "
        "averaged, which divides by accelerator.num_processes.",
        right: "That is the share of the micro-batch. After you accelerator.backward "
        "divides by k, and the processes by their number: multiply by both.",
        right * processes: "The processes are in it, and the accumulation steps are "
        "not: accelerator.backward divides by them.",
        right / steps: "accelerator.backward divides by the accumulation steps, and "
        "you did too. Multiply, so that its division cancels.",
        mean: "That is the micro-batch's mean as it is: this makes the mean of means.",
        mean * count: "That is the sum of the losses, and nothing divides it by the "
        "window's targets.",
        mean * count * steps: "The window's targets are not in it.",
        mean / window * steps: "A mean was divided by the window's targets. Times its "
        "own targets it becomes a sum first.",
        mean / window: "A mean was divided by the window's targets. Times its own "
        "targets it becomes a sum first, and k and the processes are missing too.",
    }
    for value, words in known.items():
        if abs(found - value) <= 1e-6 * abs(value):
            return words
    return (
        f"With k = {steps}, {processes} process(es), a mean loss of {mean:g} over "
        f"{count} of {window} targets you hand over {found:.4g}."
    )


share = Exercise(
    "5.6",
    "share",
    _share,
    hints=[
        "Start from the share by hand: loss × count / window_count. Who divides after "
        "you, and by what?",
        "Multiply it by accelerator.gradient_accumulation_steps and by "
        "accelerator.num_processes.",
    ],
    lesson=LESSON,
)
