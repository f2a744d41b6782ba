"""The course's own solutions: the source in lessons/, shown and executed on demand."""

from __future__ import annotations

import contextlib
import json
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

from helpers.exercises.messages import shell

PATH = Path(__file__).parents[1] / "_solutions.json"

_running = False


class _Int(int):
    """An int that can carry the mark of the course's own solution."""


class _Float(float):
    """A float that can carry the mark of the course's own solution."""


class _Str(str):
    """A text that can carry the mark of the course's own solution."""


_CARRIERS = {int: _Int, float: _Float, str: _Str}


def load() -> dict[str, dict[str, str]]:
    """All solutions as {lesson: {number: source}}; empty where none were exported."""
    if not PATH.exists():
        return {}
    return json.loads(PATH.read_text(encoding="utf-8"))


def source(lesson: str, number: str) -> str:
    """The source of one solution.

    Raises:
        LookupError: the lesson's solutions were not exported, or not this one.
    """
    try:
        return load()[lesson][number]
    except KeyError:
        raise LookupError(
            f"There is no solution of exercise {number} in {PATH.name}. "
            "`make notebooks` writes it from the lesson."
        ) from None


def run(lesson: str, number: str, name: str, namespace: dict[str, Any]) -> Any:
    """Execute a solution in a copy of `namespace` and return what it calls `name`."""
    text = source(lesson, number)
    file = f"<the course's solution of exercise {number}>"
    # With its lines in the cache, errors and inspect.getsource can show them.
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space = dict(namespace)
    with _handing_through():
        exec(compile(text, file, "exec"), space)
    if name not in space:
        raise LookupError(
            f"The solution of exercise {number} does not define `{name}`."
        )
    return space[name]


def running() -> bool:
    """Whether a solution is being executed: a check inside it must not judge."""
    return _running


def mark(value: Any, owner: str, module: str) -> Any:
    """`value` marked as the solution of the exercise `owner`, where it can be.

    Numbers and texts come back as a subclass of their type: small numbers exist only
    once in Python, so that the object itself cannot tell whose it is. Functions and
    classes are marked where the solution itself, run as part of `module`, made them.
    """
    if type(value) in _CARRIERS:
        value = _CARRIERS[type(value)](value)
    elif not isinstance(value, (FunctionType, type)) or value.__module__ != module:
        return value
    value._course_solution_of = owner
    return value


def owner_of(value: Any) -> str | None:
    """The exercise that `value` is marked for; None for the learner's own."""
    marked = isinstance(value, (FunctionType, type, *_CARRIERS.values()))
    return vars(value).get("_course_solution_of") if marked else None


def notebook_names() -> dict[str, Any]:
    """The names that the notebook has defined; those of the main script without one."""
    running_shell = shell()
    if running_shell is None:
        return vars(sys.modules["__main__"])
    return running_shell.user_ns


@contextlib.contextmanager
def _handing_through() -> Iterator[None]:
    global _running
    before, _running = _running, True
    try:
        yield
    finally:
        _running = before
