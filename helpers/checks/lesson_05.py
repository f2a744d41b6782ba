"""The exercises of lesson 5; those that are code lie in the files beside this."""

from __future__ import annotations

from ..exercises import Choice, Exercise, Prediction, Wrong, number
from .lesson_05_accelerate import share
from .lesson_05_count import first_ignored, targets
from .lesson_05_weights import weights
from .lesson_05_window import exact_window

LESSON = "05_unequal_micro_batches"
__all__ = [
    "exact_window",
    "first_ignored",
    "most_at_fault",
    "on_paper",
    "share",
    "skipped_ratio",
    "summed_memory",
    "targets",
    "weights",
]


def _on_paper(answer) -> str:
    guess = number(answer)
    if abs(guess - 1.5) < 1e-6:
        return (
            "2 × 3 and 6 × 1 are 12, over 8 targets. The mean of means would be 2, as "
            "if both micro-batches were equally large."
        )
    known = {
        2.0: "That is the mean of the two means. A target of the first micro-batch "
        "would count three times as much as one of the second.",
        4.0: "That is the sum of the two means.",
        12.0: "That is the sum of all losses. Divide it by the number of targets.",
        6.0: "That is the sum of the losses over the number of micro-batches. Divide "
        "by the targets.",
        2.5: "Each mean has the other one's weight.",
        8.0: "That is the number of targets. What is the mean of their losses?",
    }
    raise Wrong(known.get(round(guess, 3), "Not the mean of the eight losses."), 0)


on_paper = Exercise(
    "5.1",
    "on_paper",
    _on_paper,
    hints=[
        "A mean loss times its number of targets is a sum of losses.",
        "The sums are 2 × 3 and 6 × 1. Add them, and divide by all the targets.",
    ],
    lesson=LESSON,
)

summed_memory = Prediction(
    "5.4",
    "summed_memory",
    unit="MiB",
    tolerance=1.5,
    explain="The sum of the losses keeps every micro-batch's graph until its backward: "
    "k of them, as the large batch would.",
    too_low="Each loss in the sum holds on to the activations of its own micro-batch, "
    "and none can go before the backward.",
    too_high="It is one micro-batch's activations for each of the k.",
    hints=[
        "What does backward need of a micro-batch, and when can that go?",
        "All the micro-batches of the window are held at once: k times what one takes.",
    ],
    lesson=LESSON,
)


def _skipped_ratio(answer, measured) -> str:
    guess, found = number(answer), number(measured)
    if abs(guess - found) < 5e-3:
        return (
            f"{found:.2f}: three of the four are there, and the sum of them is still "
            "divided by four."
        )
    known = {
        1.0: "That would be so if the division were by the three that are left.",
        0.25: "One of four is missing; what is left?",
        1.33: "That would be too long a gradient. Something is missing from it, and "
        "the division is by four.",
        0.0: "The three others do have a gradient.",
    }
    why = known.get(round(guess, 2), "How many are added, and by how many divided?")
    raise Wrong(f"It is {found:.2f}, not {guess:.2f}. {why}", hint=1)


skipped_ratio = Exercise(
    "5.8",
    "skipped_ratio",
    _skipped_ratio,
    hints=[
        "The right gradient is the mean of the three that have targets.",
        "Three means are added and divided by 4, where 3 would be right.",
    ],
    lesson=LESSON,
    kind="Prediction",
)

most_at_fault = Choice(
    "5.9",
    "most_at_fault",
    options={
        "a": "Some of a window's micro-batches are longer than others by chance, but "
        "each of them mixes short and long texts, so their counts stay near each "
        "other.",
        "b": "Neighbours in a sorted list are nearly equally long, so the counts in a "
        "window are nearly the same, and a mean of equal parts is right.",
        "c": "Each micro-batch holds texts of one length, and a window takes "
        "micro-batches from anywhere: short ones beside long ones. Their counts "
        "differ most, and so do the weights of their targets.",
    },
    right="c",
    hints=[
        "The fault comes from unequal counts within one window. Which order puts the "
        "shortest and the longest micro-batch into the same one?",
        "Within a micro-batch of equally long texts nothing averages out; and if they "
        "are shuffled, any two of them can meet.",
    ],
    lesson=LESSON,
)
