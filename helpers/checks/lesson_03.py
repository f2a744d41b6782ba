"""The exercises of lesson 3; those that are code lie in the files beside this."""

from __future__ import annotations

from ..exercises import Choice, Prediction
from .lesson_03_block import add_gradient, own_block, prepared
from .lesson_03_exact import exact_window
from .lesson_03_traps import add_both, clip, plan_next

LESSON = "03_accelerator"
__all__ = [
    "add_both",
    "add_gradient",
    "clip",
    "exact_window",
    "first_ones_k",
    "own_block",
    "plan_next",
    "prepared",
    "short_ratio",
    "updates_made",
]

updates_made = Prediction(
    "3.2",
    "updates_made",
    unit="updates",
    tolerance=1.1,
    explain="The end of the loader ends a window too.",
    too_low="The end of a prepared loader ends a window, however short it is.",
    too_high="A window ends after every fourth micro-batch, and where the loader ends.",
    hints=[
        "Which micro-batches end a window of four? And which one ends the loader?",
        "The fourth, the eighth and the last.",
    ],
    lesson=LESSON,
)

first_ones_k = Choice(
    "3.3",
    "first_ones_k",
    options={
        "a": "The number is not kept in the Accelerator: all of a process look it up "
        "in the same place, and the second one has just written there.",
        "b": "All Accelerators of a process share one state, and the last one made "
        "decides its k.",
        "c": "A second Accelerator is allowed and makes no noise. That is the trouble.",
    },
    right="b",
    hints=[
        "Where would you keep a number that wrappers of optimizers, schedulers and "
        "loaders all need?",
        "The cell below prints it.",
    ],
    lesson=LESSON,
)

short_ratio = Prediction(
    "3.8",
    "short_ratio",
    unit="",
    tolerance=1.02,
    explain="Two micro-batches were added and divided by four.",
    too_low="All micro-batches of the window are added; only the divisor is wrong.",
    too_high="`accelerator.backward` divides by k here as well, and the window holds "
    "fewer.",
    hints=[
        "Each of the two adds its mean loss, divided by what?",
        "Micro-batches in the window, divided by k.",
    ],
    lesson=LESSON,
)
