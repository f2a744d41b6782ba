"""An exercise that checks itself: never an error for the learner, always a reason.

An exercise is called with the learner's answer. It shows one message (correct, not
yet, not attempted) and hands back what the cells below use: the answer where it is
right, the course's own solution where it is not.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch

from helpers.exercises import marks, solutions
from helpers.exercises.judging import (
    NotAttempted,
    Wrong,
    comes_from,
    stopped,
    undisturbed,
)
from helpers.exercises.messages import (
    CORRECT,
    FAULT,
    HELP,
    NOT_YET,
    OPEN,
    Code,
    Message,
    show,
)

# Objects that exist once, so that "it is the object handed out" proves nothing.
_SHARED = (bool, type(None), type, torch.dtype, FunctionType, BuiltinFunctionType)
_WANTED = {"solved": CORRECT, "unattempted": OPEN}


class CheckFailed(AssertionError):
    """Only where COURSE_CHECKS is set: the state is not the one that it demands."""


class Exercise:
    """One thing to write, with its check, its hints and its solution.

    Args:
        number: "2.1", the lesson's number and the place in it.
        name: the function, class or value that the learner writes.
        check: called as `check(answer, *given)`; returns one sentence on what the right
            answer shows, raises `Wrong` for any other.
        hints: two or more, from a nudge to nearly the answer.
        lesson: the file name of the lesson without its ending, "02_by_hand".
        kind: what the lesson's heading calls it, "Question" for example.
    """

    kind = "Exercise"
    goes_on = "The cells below go on with the course's own solution."

    def __init__(
        self,
        number: str,
        name: str,
        check: Callable[..., str],
        *,
        hints: Sequence[str],
        lesson: str,
        kind: str = "",
    ) -> None:
        if isinstance(hints, str) or len(hints) < 2:
            raise ValueError(
                f"Exercise {number} has too few hints: give a list of two or more, "
                "from a nudge to nearly the answer."
            )
        self.number, self.name, self.check = number, name, check
        self.hints, self.lesson = tuple(hints), lesson
        self.kind = kind or type(self).kind
        self._hints_shown = 0
        self._handed_out: Any = None

    @property
    def heading(self) -> str:
        return f"{self.kind} {self.number}, `{self.name}`"

    def __repr__(self) -> str:
        return f"<{self.kind} {self.number}: {self.name}>"

    def __call__(self, answer: Any = ..., *given: Any) -> Any:
        """Check `answer`, show the result, and return what the cells below use."""
        if solutions.running():
            return answer
        message = self.judge(answer, *given)
        result = answer
        if message.state != CORRECT:
            result = self._instead_of(answer, message)
        show(message)
        self._report(message)
        return result

    def hint(self) -> None:
        """Show the next hint; after the last one, the last one again."""
        place = self._next_hint()
        self._hints_shown += 1
        count = len(self.hints)
        lines = [f"{place + 1} of {count}: {self.hints[place]}"]
        show(Message(self.heading, HELP, lines))

    def solution(self) -> None:
        """Show one possible solution: the source in the lesson that was executed."""
        try:
            source = solutions.source(self.lesson, self.number)
        except LookupError as error:
            show(Message(self.heading, FAULT, [error.args[0]]))
        else:
            show(Code(f"One possible solution of exercise {self.number}:", source))

    def judge(self, answer: Any, *given: Any) -> Message:
        """What `answer` deserves; shows nothing, and leaves the random state alone.

        An error in the learner's code is the learner's ("not yet"); any other error in
        the check is a fault of the course, and is said to be one.
        """
        if answer is ...:
            return self._open("the dots `...`")
        if self._is_own(answer):
            return Message(
                self.heading,
                OPEN,
                [
                    "This is the course's own solution, handed back so that the cells "
                    "below run. Run your own cell again, then this one."
                ],
            )
        try:
            with undisturbed():
                note = self._asked(answer, given)
        except NotAttempted:
            return self._open("`raise NotImplementedError`")
        except Wrong as wrong:
            return self._not_yet(wrong)
        except Exception as error:
            return self._fault(error)
        return Message(self.heading, CORRECT, [note])

    def solve(self, namespace: dict[str, Any]) -> Any:
        """The course's own answer, made in a copy of `namespace`; not marked."""
        return solutions.run(self.lesson, self.number, self.name, namespace)

    def _asked(self, answer: Any, given: tuple[Any, ...]) -> str:
        """What the check says, with errors put down to whose code they are in."""
        if answer is None:
            raise Wrong(f"`{self.name}` is None, which stands for nothing.")
        try:
            return self.check(answer, *given)
        except (NotAttempted, Wrong):
            raise
        except Exception as error:
            if comes_from(answer, error):
                raise stopped(error, answer) from None
            raise

    def _instead_of(self, answer: Any, message: Message) -> Any:
        """The course's solution, marked as such; the answer itself where none runs."""
        names = getattr(answer, "__globals__", None) or solutions.notebook_names()
        key = f"{self.lesson}/{self.number}"
        try:
            with undisturbed():
                value = self.solve(names)
        except Exception as error:
            message.lines.append(
                "The course's own solution does not run here either "
                f"({type(error).__name__}: {error}). Run the cells above first."
            )
            return answer
        if self.goes_on:
            message.lines.append(self.goes_on)
        self._handed_out = solutions.mark(value, key, names.get("__name__", ""))
        return self._handed_out

    def _is_own(self, answer: Any) -> bool:
        if solutions.owner_of(answer) == f"{self.lesson}/{self.number}":
            return True
        return answer is self._handed_out and not isinstance(answer, _SHARED)

    def _open(self, stub: str) -> Message:
        line = f"Write your answer in place of {stub}, run that cell, then this one."
        return Message(self.heading, OPEN, [line], self._folded_hint(self._next_hint()))

    def _not_yet(self, wrong: Wrong) -> Message:
        place = self._next_hint() if wrong.hint is None else wrong.hint
        if not 0 <= place < len(self.hints):
            return self._fault(IndexError(f"there is no hint {place}"))
        lines, folded = str(wrong).split("\n"), self._folded_hint(place)
        return Message(self.heading, NOT_YET, lines, folded, wrong.error)

    def _fault(self, error: Exception) -> Message:
        lines = [
            "The check itself stopped with an error, which is a fault of the course. "
            "Your answer was not judged."
        ]
        trace = "".join(
            traceback.format_exception(type(error), error, error.__traceback__)
        )
        return Message(self.heading, FAULT, lines, error=trace)

    def _next_hint(self) -> int:
        return min(self._hints_shown, len(self.hints) - 1)

    def _folded_hint(self, place: int) -> dict[str, str]:
        return {f"Hint {place + 1} of {len(self.hints)}": self.hints[place]}

    def _report(self, message: Message) -> None:
        """Tell the log, the mode that CI demands, and the learner's own marks."""
        mode = os.environ.get("COURSE_CHECKS", "")
        log = os.environ.get("COURSE_CHECKS_LOG")
        if log:
            line = dict(lesson=self.lesson, exercise=self.number, state=message.state)
            with open(log, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        if mode and mode not in _WANTED:
            raise CheckFailed(f"COURSE_CHECKS is {mode!r}; use one of {list(_WANTED)}.")
        if mode and message.state != _WANTED[mode]:
            raise CheckFailed(f"Every exercise must be {_WANTED[mode]}.\n{message}")
        if not mode and message.state == CORRECT:
            marks.record(self.lesson, self.number)
