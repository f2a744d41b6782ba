"""The exercises of lesson 6; those that are code lie in the files beside this."""

from __future__ import annotations

from collections.abc import Mapping

from ..exercises import Exercise, Wrong, number
from ..exercises.judging import NotAttempted
from .lesson_06_no_sync import held_back
from .lesson_06_ring import sent_bytes
from .lesson_06_share import share

LESSON = "06_several_processes"
__all__ = [
    "backward_exchanges",
    "happens",
    "held_back",
    "prepared_rates",
    "sent_bytes",
    "share",
    "update_rows",
    "world_ratio",
]


def _compared(answer, measured, known: dict[float, str], otherwise: str) -> None:
    """Refuse a guess that is not what was measured, with the words for it."""
    guess, found = number(answer), number(measured)
    if abs(guess - found) > 5e-3 * max(1.0, found):
        why = known.get(round(guess, 2), otherwise)
        raise Wrong(f"It is {found:g}, not {guess:g}. {why}", hint=1)


def _update_rows(answer, measured) -> str:
    known = {
        24: "That is the window of one process, and there are two.",
        16: "That is one micro-batch of each process. A window has three.",
        8: "That is one micro-batch.",
        6: "That is the number of micro-batches. Each has eight rows.",
        3: "That is the accumulation steps.",
        960: "Those are all the rows there are.",
    }
    otherwise = "Multiply micro-batch, accumulation steps and processes."
    _compared(answer, measured, known, otherwise)
    return "Micro-batch × accumulation steps × processes: both windows count."


update_rows = Exercise(
    "6.1",
    "update_rows",
    _update_rows,
    hints=[
        "How many rows are in the window of one process? The update is made of both.",
        "8 rows, times 3 micro-batches, times 2 processes.",
    ],
    lesson=LESSON,
    kind="Prediction",
)


def _backward_exchanges(answer, measured) -> str:
    known = {
        1: "The forward pass has decided before `no_sync` begins, so nothing is held "
        "back.",
        0: "The last micro-batch has no `no_sync` at all, so there is one at least.",
        3: "Three micro-batches have the `no_sync`, and it comes too late for each; "
        "and the last one exchanges in any case.",
        8: "Each process takes part in each exchange: those are not two.",
    }
    _compared(answer, measured, known, "DDP decides in the forward pass.")
    return (
        "As many as with no `no_sync` at all: the forward pass has decided already, "
        "and nothing warns."
    )


backward_exchanges = Exercise(
    "6.4",
    "backward_exchanges",
    _backward_exchanges,
    hints=[
        "When does DDP decide, and has `no_sync` begun by then?",
        "In `around_backward` every forward pass is outside of `no_sync`, so each "
        "backward exchanges.",
    ],
    lesson=LESSON,
    kind="Prediction",
)


def _world_ratio(answer, measured) -> str:
    guess, found = number(answer), number(measured)
    if abs(found - 1) < 1e-3 and guess in (1, 2):
        return (
            "Your version of transformers divides by the targets of all, so the ratio "
            "is 1. Where it does not, the ratio is the number of processes."
        )
    known = {
        1: "With k = 1 the accumulation steps do no harm. The Trainer multiplies by "
        "the number of processes as well, and nobody divides by the targets of all.",
        0.5: "That would be a division too many. The Trainer multiplies.",
        4: "That would be so with k = 2: both factors come in.",
    }
    _compared(answer, measured, known, "The factor is k times the processes.")
    return "The number of processes times k, and k is 1."


world_ratio = Exercise(
    "6.5",
    "world_ratio",
    _world_ratio,
    hints=[
        "On one process the gradient is k times too long. What does the Trainer "
        "multiply by on several?",
        "k times the number of processes: 1 × 2.",
    ],
    lesson=LESSON,
    kind="Prediction",
)


def _prepared_rates(answer, measured) -> str:
    if isinstance(answer, (list, tuple)) and any(rate is ... for rate in answer):
        raise NotAttempted
    try:
        rates = [number(rate) for rate in answer]
    except TypeError:
        raise Wrong("Two numbers are wanted, in a list: [first, second].") from None
    if len(rates) != 2:
        raise Wrong(f"Two rates are wanted, and {len(rates)} came.")
    wanted = [number(rate) for rate in measured]
    if all(abs(r - w) < 1e-6 for r, w in zip(rates, wanted, strict=True)):
        return "Two steps an update: after two updates the plan for four is at its end."
    known = {
        (0.75, 0.5): "That is one step an update, as it is if the scheduler is not "
        "prepared. A prepared one steps once for each process.",
        (1.0, 0.5): "Those are the rates that the two updates were made with. What is "
        "the rate after each?",
        (1.0, 0.75): "Those would be the rates before each update, one step apart.",
        (0.5, 0.25): "The first is right. The plan is a straight line, so the next "
        "two steps take away as much.",
        (0.75, 0.25): "Does it step once after the first update, and twice after the "
        "second?",
    }
    why = known.get(tuple(rates), "How many steps has it made after each update?")
    said = " and ".join(f"{rate:g}" for rate in wanted)
    raise Wrong(f"Measured: {said}. {why}", hint=1)


prepared_rates = Exercise(
    "6.6",
    "prepared_rates",
    _prepared_rates,
    hints=[
        "After one update it has made two steps. And after two updates?",
        "1 - step / 4, for step = 2 and step = 4.",
    ],
    lesson=LESSON,
)

_HAPPENS = {
    "ends": "fails",
    "works on": "hangs",
    "starts anew": "passes silently",
}
_WHY = {
    ("ends", "hangs"): "A process that has ended closes its connections, and the other "
    "one notices.",
    ("ends", "passes silently"): "There is nobody left to exchange with, and a mean "
    "of two cannot be had from one.",
    ("works on", "fails"): "Its connections are open, so nothing looks wrong. The "
    "other one waits for an answer that does not come.",
    ("works on", "passes silently"): "The exchange is part of the backward, which "
    "cannot end without the other process.",
    ("starts anew", "hangs"): "Process 1 makes a backward, if with other rows, so "
    "there is somebody to exchange with.",
    ("starts anew", "fails"): "Process 1 makes a backward, and DDP cannot tell "
    "whether its rows were due.",
}


def _happens(answer) -> str:
    if not isinstance(answer, Mapping):
        raise Wrong('A dict is wanted: {"ends": ..., "works on": ..., ...}.')
    if answer and all(value is ... for value in answer.values()):
        raise NotAttempted
    for case, right in _HAPPENS.items():
        said = answer.get(case, ...)
        word = said.strip(" .").lower() if isinstance(said, str) else said
        if word not in (*_HAPPENS.values(),):
            raise Wrong(
                f'For "{case}" answer with "hangs", "fails" or "passes silently".'
            )
        if word != right:
            raise Wrong(f'If process 1 {case}: not "{word}". {_WHY[case, word]}')
    return "Silence is the worst of the three: nobody looks for what nobody reports."


happens = Exercise(
    "6.7",
    "happens",
    _happens,
    hints=[
        "A backward in DDP needs an answer from every process. Who still answers, and "
        "with what?",
        "A closed connection is noticed, a busy process is not, and any gradient will "
        "do for an answer.",
    ],
    lesson=LESSON,
)
