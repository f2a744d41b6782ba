"""Every exercise of the course is proved on right, wrong, open and odd answers."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import helpers.checks
import tests.answers
from helpers.exercises import Exercise, solutions
from tests.answers import Proof
from tests.enumerating import course_faults, exercises
from tests.proving import faults

LESSONS = Path(__file__).parents[1] / "lessons"


def _modules(package: ModuleType) -> dict[str, ModuleType]:
    return {
        found.name: importlib.import_module(f"{package.__name__}.{found.name}")
        for found in pkgutil.iter_modules(package.__path__)
        if re.fullmatch(r"lesson_\d\d", found.name)
    }


CHECKS = _modules(helpers.checks)
PROOFS = {name: module.PROOFS for name, module in _modules(tests.answers).items()}
ALL = [
    pytest.param(exercise, PROOFS.get(key, {}).get(exercise.number), id=exercise.number)
    for key, module in CHECKS.items()
    for exercise in exercises(module).values()
]


def test_every_lesson_has_checks_solutions_and_proofs() -> None:
    assert course_faults(LESSONS, CHECKS, PROOFS, solutions.load()) == []


@pytest.mark.parametrize(("exercise", "proof"), ALL)
def test_the_check_is_proved(exercise: Exercise, proof: Proof | None) -> None:
    found = faults(exercise, proof)
    assert not found, "\n\n".join(found)
