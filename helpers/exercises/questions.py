"""Exercises answered with a letter or with a number: questions and predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from helpers.exercises.exercise import Exercise
from helpers.exercises.judging import Wrong, number

AGAIN = "Change your number and run this again as often as you like."


class Choice(Exercise):
    """A question answered with a letter; every choice is answered with its why.

    Args:
        options: {"a": "one or more sentences on why a is right or wrong", ...}.
        right: the letter of the right one.
        number, name, hints, lesson: as for `Exercise`.
    """

    kind = "Question"
    goes_on = ""

    def __init__(
        self,
        number: str,
        name: str,
        *,
        options: Mapping[str, str],
        right: str,
        hints: Sequence[str],
        lesson: str,
    ) -> None:
        if right not in options or len(set(options.values())) < max(2, len(options)):
            raise ValueError(
                f"Question {number} needs two or more options, each with a why of its "
                f"own, and a right one among them, not {right!r}."
            )
        super().__init__(number, name, self._judged, hints=hints, lesson=lesson)
        self.options, self.right = dict(options), right

    def _judged(self, answer: Any) -> str:
        letter = answer.strip(" ().:").lower() if isinstance(answer, str) else None
        if letter not in self.options:
            letters = ", ".join(self.options)
            raise Wrong(f'Answer with one of the letters {letters}, in quotes: "a".')
        if letter != self.right:
            raise Wrong(self.options[letter])
        return self.options[letter]


class Prediction(Exercise):
    """A number said before the measurement and compared with it after.

    Called with the guess and what was then measured. A guess within the factor
    `tolerance` of the measured value is correct; any other can be changed at will.

    Args:
        unit: of both numbers, as it is written after them: "MiB".
        tolerance: above 1; 1.25 takes measured / 1.25 to measured * 1.25.
        explain: a sentence on what the figure shows, for a guess that was close.
        too_low, too_high: what most people who guess so forget, or count twice.
        number, name, hints, lesson: as for `Exercise`.
    """

    kind = "Prediction"
    goes_on = ""

    def __init__(
        self,
        number: str,
        name: str,
        *,
        unit: str,
        tolerance: float,
        explain: str,
        too_low: str,
        too_high: str,
        hints: Sequence[str],
        lesson: str,
    ) -> None:
        if not tolerance > 1:
            raise ValueError(
                f"The tolerance of prediction {number} is a factor above 1, "
                f"for example 1.25, and not {tolerance}."
            )
        super().__init__(number, name, self._judged, hints=hints, lesson=lesson)
        self.unit, self.tolerance, self.explain = unit, tolerance, explain
        self.too_low, self.too_high = too_low, too_high

    def _judged(self, answer: Any, measured: Any) -> str:
        guess, found = number(answer), float(measured)
        if not found > 0:
            raise ValueError(f"A prediction needs a measured value above 0: {found}.")
        if guess <= 0:
            raise Wrong("What is measured here is above 0, so your guess has to be.")
        both = f"You said {self._said(guess)}, measured {self._said(found)}"
        factor = guess / found
        if 1 / self.tolerance <= factor <= self.tolerance:
            percent = math.ceil(abs(factor - 1) * 100)
            near = f"within {percent} %" if percent else "exactly that"
            return f"{both}: {near}. {self.explain}"
        if factor < 1:
            way, why, times = "low", self.too_low, 1 / factor
        else:
            way, why, times = "high", self.too_high, factor
        off = (
            f"{round(abs(factor - 1) * 100)} %" if times < 2 else f"{times:,.1f} times"
        )
        raise Wrong(f"{both}: {off} too {way}. {why}\n{AGAIN}")

    def _said(self, value: float) -> str:
        figure = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
        return f"{figure} {self.unit}".rstrip()
