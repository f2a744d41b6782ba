"""A made-up lesson with one exercise, for the tests of the engine."""

from __future__ import annotations

import functools
import json
import linecache

import torch

from helpers.exercises import Exercise, Wrong, call, number, solutions

LESSON = "02_fake"
SOURCE = "def halved(x):\n    return x / 2"

STUBS = {
    "raise": "def halved(x):\n    raise NotImplementedError",
    "raise with words": "def halved(x):\n    raise NotImplementedError('your turn')",
    "dots": "def halved(x):\n    ...",
    "docstring and dots": "def halved(x):\n    '''Half of x.'''\n    ...",
    "pass": "def halved(x):\n    pass",
    "value": "halved = ...",
    "partial": "def h(y, x):\n    raise NotImplementedError\n"
    "halved = functools.partial(h, 1)",
}


def cell(source: str, name: str = "halved"):
    """What a learner's cell defines, compiled as IPython compiles it."""
    file = f"/tmp/ipykernel_7/{abs(hash(source))}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space = {"__name__": "__main__", "torch": torch, "functools": functools}
    exec(compile(source, file, "exec"), space)
    return space[name]


def check(answer, *given):
    for x in (3.0, 5.0):
        got = number(call(answer, x))
        if got == 2 * x:
            raise Wrong("You doubled it.", hint=1)
        if got != x / 2:
            raise Wrong(f"Half of {x} is not {got}.")
    return "Half is half."


def make(check=check, name="halved", number="2.1"):
    return Exercise(
        number, name, check, hints=["Nudge.", "Divide by 2."], lesson=LESSON
    )


def install(folder, monkeypatch):
    """Solutions and marks of the lesson in `folder`; no mode."""
    table = {LESSON: {"2.1": SOURCE, "2.2": "steps = 4", "2.3": 'where = "b"'}}
    path = folder / "_solutions.json"
    path.write_text(json.dumps(table))
    monkeypatch.setattr(solutions, "PATH", path)
    monkeypatch.setenv("COURSE_PROGRESS", str(folder / "marks" / "progress.json"))
    monkeypatch.delenv("COURSE_CHECKS", raising=False)
    monkeypatch.delenv("COURSE_CHECKS_LOG", raising=False)
    return path
