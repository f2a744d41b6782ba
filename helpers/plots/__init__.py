"""The course's figures: one call each, with a text for readers who cannot see it.

Every function takes `alt` (what the figure shows, in words) and `caption` (the line
under it) and refuses to draw without them. It draws, displays and returns None.
Importing this package costs nothing: Matplotlib loads with the first figure.
"""

from helpers.plots.approaches import ease_against_control
from helpers.plots.batches import (
    cut_into_micro_batches,
    fails_and_completes,
    one_update,
)
from helpers.plots.explorer import memory_explorer
from helpers.plots.figure import show
from helpers.plots.forecast import forecast_bars
from helpers.plots.gradients import (
    error_bars,
    gradient_spread,
    gradients_add_up,
    window_ratios,
)
from helpers.plots.memory import memory_and_speed, memory_bars
from helpers.plots.overview import course_map, three_efficiencies
from helpers.plots.processes import update_times
from helpers.plots.scores import score_map
from helpers.plots.tokens import padding, token_weights
from helpers.plots.training import curves, history

__all__ = [
    "course_map",
    "curves",
    "cut_into_micro_batches",
    "ease_against_control",
    "error_bars",
    "fails_and_completes",
    "forecast_bars",
    "gradient_spread",
    "gradients_add_up",
    "history",
    "memory_and_speed",
    "memory_bars",
    "memory_explorer",
    "one_update",
    "padding",
    "score_map",
    "show",
    "three_efficiencies",
    "token_weights",
    "update_times",
    "window_ratios",
]
