"""Exercises, questions and predictions, and what their checks are written with."""

from __future__ import annotations

from helpers.exercises.exercise import CheckFailed, Exercise
from helpers.exercises.judging import Wrong, call, close, copied, number
from helpers.exercises.marks import progress
from helpers.exercises.questions import Choice, Prediction

__all__ = [
    "CheckFailed",
    "Choice",
    "Exercise",
    "Prediction",
    "Wrong",
    "call",
    "close",
    "copied",
    "number",
    "progress",
]
