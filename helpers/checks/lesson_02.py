"""The exercises of lesson 2; those that are code lie in the files beside this."""

from __future__ import annotations

from ..exercises import Choice, Prediction
from .lesson_02_lines import after_window, scaled_loss, update_now
from .lesson_02_loop import own_loop
from .lesson_02_windows import (
    total_updates,
    updates_made,
    window_gradient,
    window_size,
)

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
