"""Proves the check of one exercise: what is wrong with it comes back in sentences."""

from __future__ import annotations

import dis
import math
import random
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any

import numpy
import torch

from helpers.exercises import Choice, Exercise, Prediction
from helpers.exercises.messages import CORRECT, FAULT, NOT_YET, OPEN, Message
from tests.answers import Proof

ODD = (None, "text", [], math.nan, True, object())


def faults(exercise: Exercise, proof: Proof | None = None) -> list[str]:
    """What is wrong with one exercise, its check or its proof; [] if nothing is."""
    return _Trial(exercise, proof).faults()


class _Trial:
    def __init__(self, exercise: Exercise, proof: Proof | None) -> None:
        self.exercise = exercise
        self.found: list[str] = []
        names = _made(proof.namespace) if proof else None
        try:
            self.official = exercise.solve({"torch": torch} if names is None else names)
        except Exception as error:
            self.found.append(
                f"the official solution does not run: {type(error).__name__}: {error}"
            )
        else:
            self.proof = proof or _own_proof(exercise, self.official)

    def faults(self) -> list[str]:
        if self.found:
            return self.found
        if self.proof is None:
            return [f"{self.exercise} has no proof"]
        if len(set(self.exercise.hints)) < 2 or not all(self.exercise.hints):
            self.found.append(f"{self.exercise} has fewer than two different hints")
        self._want(CORRECT, self.official, "the official solution")
        self._right()
        self._wrong()
        self._open()
        self._odd()
        return self.found

    def _right(self) -> None:
        others = 0
        for place, answer in enumerate(self.proof.right):
            self._want(CORRECT, answer, f"right answer {place + 1}")
            self._want(CORRECT, answer, f"right answer {place + 1}, a second time")
            others += _way(answer) != _way(self.official)
        if not others:
            self.found.append(
                "no right answer is written another way than the official"
            )

    def _wrong(self) -> None:
        reasons: dict[str, int] = {}
        for place, (answer, words) in enumerate(self.proof.wrong, 1):
            message = self._want(NOT_YET, answer, f"wrong answer {place}")
            said = "\n".join(message.lines)
            if not words or words not in said:
                self.found.append(f"wrong answer {place} must say {words!r}: {message}")
            if said in reasons:
                self.found.append(
                    f"wrong answers {reasons[said]} and {place} get the same words"
                )
            reasons[said] = place
        if len(self.proof.wrong) < 2:
            self.found.append("there are fewer than two wrong answers")

    def _open(self) -> None:
        self._want(OPEN, ..., "the stub `...`")
        if callable(self.official):
            self._want(OPEN, _stub, "the stub that raises NotImplementedError")
            self._want(OPEN, _dots, "the stub with only `...` inside")

    def _odd(self) -> None:
        answers = list(ODD)
        if callable(self.official):
            answers += [lambda *_, odd=odd, **__: odd for odd in ODD]
        for odd in answers:
            if (message := self._judged(odd, "an odd answer")).state == FAULT:
                self.found.append(f"the check stops at {odd!r}:\n{message.error}")

    def _want(self, state: str, answer: Any, called: str) -> Message:
        message = self._judged(answer, called)
        if message.state != state:
            self.found.append(
                f"{called} should be {state!r}: {message}\n{message.error}"
            )
        return message

    def _judged(self, answer: Any, called: str) -> Message:
        """Judge, and note what the check has left changed."""
        given = _made(self.proof.given)
        before = _fingerprint([answer, given]), _surroundings()
        message = self.exercise.judge(answer, *given)
        if _fingerprint([answer, given]) != before[0]:
            self.found.append(f"the check changes its inputs: {called}")
        if _surroundings() != before[1]:
            self.found.append(f"the check changes the random state: {called}")
        return message


def _own_proof(exercise: Exercise, official: Any) -> Proof | None:
    """The proof that a question or a prediction carries in itself."""
    if isinstance(exercise, Choice):
        right = exercise.right
        others = {k: why for k, why in exercise.options.items() if k != right}
        return Proof(
            right=[right.upper(), f" {right}) "],
            wrong=[*others.items(), ("none of them", "one of the letters")],
        )
    if isinstance(exercise, Prediction):
        far = 2 * exercise.tolerance
        return Proof(
            right=[official * exercise.tolerance**0.5],
            wrong=[
                (official / far, f"too low. {exercise.too_low}"),
                (official * far, f"too high. {exercise.too_high}"),
                (0, "above 0"),
            ],
            given=(official,),
        )
    return None


def _stub(*_: Any, **__: Any) -> Any:
    raise NotImplementedError


def _dots(*_: Any, **__: Any) -> Any: ...


def _made(thing: Any) -> Any:
    return thing() if callable(thing) else thing


def _way(answer: Any) -> Any:
    """How an answer is written, so that other names for its variables do not count."""
    if isinstance(answer, FunctionType):
        return _instructions(answer.__code__)
    if isinstance(answer, type):
        parts = vars(answer).items()
        return {k: _way(v) for k, v in parts if isinstance(v, FunctionType)}
    return type(answer), _fingerprint(answer)


def _instructions(code: CodeType) -> list[Any]:
    steps = []
    for step in dis.get_instructions(code):
        if isinstance(step.argval, CodeType):
            steps.append(_instructions(step.argval))
        elif step.opcode in dis.haslocal or step.opcode in dis.hasfree:
            steps.append((step.opname, step.arg))  # its place, not its name
        else:
            steps.append((step.opname, step.argrepr))
    return steps


def _surroundings() -> Any:
    return (
        torch.get_rng_state().tolist(),
        repr(numpy.random.get_state()),
        random.getstate(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
    )


def _fingerprint(thing: Any) -> Any:
    """The values in a thing, comparable with those that it has later."""
    if isinstance(thing, torch.Tensor):
        flat = thing.detach().cpu().contiguous().reshape(-1)
        values = flat.view(torch.uint8).numpy().tobytes()
        return thing.dtype, thing.shape, values, _fingerprint(thing.grad)
    if isinstance(thing, torch.nn.Module):
        gradients = [parameter.grad for parameter in thing.parameters()]
        return _fingerprint([thing.state_dict(), gradients, thing.training])
    if isinstance(thing, torch.optim.Optimizer):
        return _fingerprint(thing.state_dict())
    if isinstance(thing, Mapping):
        return {repr(key): _fingerprint(value) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_fingerprint(item) for item in thing]
    return repr(thing)
