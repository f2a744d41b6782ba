"""What a check is written with: run an answer, compare it, say why it is not right."""

from __future__ import annotations

import contextlib
import copy
import dis
import functools
import inspect
import itertools
import math
import random
import sys
import traceback
from collections.abc import Iterator
from types import CodeType, FunctionType, TracebackType
from typing import Any

import torch

MOST_ITEMS = 10_000


class Wrong(Exception):
    """The answer is not right yet, for the reason given in a full sentence.

    `hint` is the place of the hint that helps, counted from 0; without it the learner
    is offered the next one not yet seen. `error` is a Python error to unfold.
    """

    def __init__(self, reason: str, hint: int | None = None, error: str = "") -> None:
        super().__init__(reason)
        self.hint = hint
        self.error = error


class NotAttempted(Exception):
    """The stub is as the lesson gave it."""


def call(answer: Any, *args: Any, **kwargs: Any) -> Any:
    """Run the learner's function (or make an object of the learner's class).

    A generator is run to its end and comes back as a list. What the learner's code
    raises becomes `Wrong`, with the line; an untouched stub becomes `NotAttempted`.
    """
    if not callable(answer):
        raise Wrong(
            f"A function is wanted here, and your answer is {_described(answer)}. "
            "Keep the line that starts with `def`."
        )
    if isinstance(answer, FunctionType) and _does_nothing(answer.__code__):
        raise NotAttempted
    try:
        result = answer(*args, **kwargs)
        if inspect.isgenerator(result):
            result = _to_the_end(result)
        return result
    except (Wrong, NotAttempted):
        raise
    except (Exception, SystemExit) as error:
        raise stopped(error, answer) from None


def number(answer: Any) -> float:
    """The answer as a float: from an int, a float, or one element of NumPy or torch.

    Raises:
        Wrong: it is None, a bool, a text, several numbers, or not finite.
    """
    if answer is None:
        raise Wrong("The result is None, so nothing came back. Is a `return` missing?")
    if isinstance(answer, torch.Tensor) or type(answer).__module__ == "numpy":
        size = answer.numel() if isinstance(answer, torch.Tensor) else answer.size
        if size != 1:
            shape = tuple(answer.shape)
            raise Wrong(f"One number is wanted, and this is an array of shape {shape}.")
        answer = answer.item()
    if isinstance(answer, bool) or not isinstance(answer, (int, float)):
        raise Wrong(f"A number is wanted, and this is {_described(answer)}.")
    if not math.isfinite(answer):
        raise Wrong(f"The result is {answer}. Is something divided by zero?")
    return float(answer)


def close(a: Any, b: Any, tolerance: float) -> bool:
    """Whether |a - b| <= tolerance * |b|, in float64 and over all elements (2-norm).

    `b` is what is wanted; where it is 0 the bound is `tolerance` itself. Numbers and
    tensors of the same shape; another shape, nan and infinity are never close.

    Raises:
        Wrong: `a` is neither a number, nor a list of them, nor a tensor.
    """
    right = _double(b)
    try:
        left = _double(a)
    except (TypeError, ValueError, RuntimeError):
        raise Wrong(f"Numbers are wanted, and this is {_described(a)}.") from None
    if left.shape != right.shape:
        return False
    size = right.norm().item()
    return (left - right).norm().item() <= tolerance * (size or 1.0)


def copied(*things: Any) -> Any:
    """A deep copy of one thing, or of several as a tuple.

    Several stay tied: the copy of an optimizer steps the copy of its model. Tensors
    that are the result of an operation lose that history, and keep their values.
    """
    memo: dict[int, Any] = {}
    copies = tuple(_copy(thing, memo) for thing in things)
    return copies[0] if len(copies) == 1 else copies


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Leave random numbers, gradient mode and default dtype as they were before."""
    numpy = sys.modules.get("numpy")
    states = random.getstate(), torch.get_rng_state()
    numpy_state = numpy.random.get_state() if numpy else None
    on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
    gpu_states = torch.cuda.get_rng_state_all() if on_gpu else []
    gradients, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    torch.set_grad_enabled(True)
    try:
        yield
    finally:
        torch.set_grad_enabled(gradients)
        torch.set_default_dtype(dtype)
        random.setstate(states[0])
        torch.set_rng_state(states[1])
        if numpy:
            numpy.random.set_state(numpy_state)
        if on_gpu:
            torch.cuda.set_rng_state_all(gpu_states)


def stopped(error: BaseException, answer: Any) -> Exception:
    """`error`, raised by the learner's code, as the message that it becomes."""
    frames = traceback.extract_tb(error.__traceback__)
    files = {code.co_filename for code in _codes(answer)}
    theirs = [f for f in frames if f.filename in files or _is_cell(f.filename)]
    line = (theirs[-1].line or "") if theirs else ""
    # torch raises NotImplementedError too, with words; only the stub's is our sign.
    is_stub = not error.args or line.startswith("raise NotImplementedError")
    if isinstance(error, NotImplementedError) and is_stub:
        return NotAttempted()
    where = f" in line {theirs[-1].lineno} of your cell" if theirs else ""
    where += f": `{line}`" if line else ""
    said = f"\n{error}" if str(error) else ""
    if isinstance(error, TypeError) and not theirs:
        said += "\nKeep the first line of the function as the lesson gave it."
    return Wrong(
        f"Your code stopped with {type(error).__name__}{where}{said}",
        error="".join(
            traceback.format_exception(
                type(error), error, _from_answer(error.__traceback__, files)
            )
        ),
    )


def comes_from(answer: Any, error: BaseException) -> bool:
    """Whether `error` came up while the learner's own function or class was running."""
    codes, step = _codes(answer), error.__traceback__
    while step is not None:
        if step.tb_frame.f_code in codes:
            return True
        step = step.tb_next
    return False


def _from_answer(trace: TracebackType | None, files: set[str]) -> TracebackType | None:
    """The part of `trace` that starts in the learner's code; None if nothing does."""
    step = trace
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if file in files or _is_cell(file):
            return step
        step = step.tb_next
    return None


def _codes(answer: Any) -> set[CodeType]:
    """The code objects of a function, of a class's methods, of what a partial calls."""
    while isinstance(answer, functools.partial):
        answer = answer.func
    members = vars(answer).values() if isinstance(answer, type) else [answer]
    codes = (getattr(member, "__code__", None) for member in members)
    return {code for code in codes if code is not None}


def _is_cell(file: str) -> bool:
    """Whether a file name is one that IPython gives to a cell (7.34 and later)."""
    return "ipykernel_" in file or file.startswith("<ipython-input")


def _does_nothing(code: CodeType) -> bool:
    """Whether a function's whole body is `...`, `pass` or a docstring."""
    steps = [s for s in dis.get_instructions(code) if s.opname not in ("RESUME", "NOP")]
    idle = {"LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}
    return all(step.opname in idle and step.argval is None for step in steps)


def _to_the_end(generator: Iterator[Any]) -> list[Any]:
    items = list(itertools.islice(generator, MOST_ITEMS))
    if len(items) == MOST_ITEMS:
        raise Wrong(
            f"Your generator does not end: it gave {MOST_ITEMS} items and more."
        )
    return items


def _double(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().double()
    return torch.as_tensor(value, dtype=torch.float64, device="cpu")


def _copy(thing: Any, memo: dict[int, Any]) -> Any:
    if type(thing) in (list, tuple):
        return type(thing)(_copy(item, memo) for item in thing)
    if type(thing) is dict:
        return {key: _copy(item, memo) for key, item in thing.items()}
    if isinstance(thing, torch.Tensor) and not thing.is_leaf:
        return thing.detach().clone().requires_grad_(thing.requires_grad)
    return copy.deepcopy(thing, memo)


def _described(answer: Any) -> str:
    """What an answer is, in words that a learner knows."""
    if answer is None:
        return "None"
    if isinstance(answer, str):
        return f"the text {answer!r}"
    name = type(answer).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
