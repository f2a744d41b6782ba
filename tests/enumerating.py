"""Lists the exercises of the course, and what is missing around them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from helpers.exercises import Exercise
from tests.answers import Proof


def exercises(checks: ModuleType) -> dict[str, Exercise]:
    """The exercises of a module of checks, by the name that a lesson calls them."""
    things = vars(checks).items()
    found = [(name, thing) for name, thing in things if isinstance(thing, Exercise)]
    return dict(sorted(found, key=lambda pair: int(pair[1].number.split(".")[1])))


def course_faults(
    lessons: Path,
    checks: Mapping[str, ModuleType],
    proofs: Mapping[str, Mapping[str, Proof]],
    solutions: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """What is missing between the lessons, their checks, solutions and proofs.

    `checks` and `proofs` go by "lesson_02", `solutions` by the lesson's file name
    without its ending.
    """
    stems = {f"lesson_{path.stem[:2]}": path.stem for path in lessons.glob("*.py")}
    found = [
        f"{what} {key} belongs to no file in {lessons.name}/"
        for what, keys, known in (
            ("the checks module", checks, stems),
            ("the proofs module", proofs, stems),
            ("the exported solutions of", solutions, stems.values()),
        )
        for key in keys
        if key not in known
    ]
    for key, stem in sorted(stems.items()):
        if key not in checks:
            found.append(f"lesson {stem} has no helpers/checks/{key}.py")
        elif key not in proofs:
            found.append(f"lesson {stem} has no tests/answers/{key}.py")
        else:
            exported = solutions.get(stem, {})
            found += _lesson_faults(stem, checks[key], proofs[key], exported)
    return found


def _lesson_faults(
    stem: str,
    checks: ModuleType,
    proofs: Mapping[str, Proof],
    exported: Mapping[str, str],
) -> list[str]:
    named = exercises(checks)
    numbers = [exercise.number for exercise in named.values()]
    found = [] if numbers else [f"{stem} has no exercise"]
    for name, exercise in named.items():
        if name != exercise.name:
            found.append(f"{exercise} is called ex.{name}: use one name for both")
        if exercise.lesson != stem:
            found.append(f"{exercise} says lesson {exercise.lesson}, not {stem}")
        if exercise.number.split(".")[0] != str(int(stem[:2])):
            found.append(f"{exercise} has a number of another lesson than {stem}")
        if exercise.number not in proofs and type(exercise) is Exercise:
            found.append(f"{exercise} has no proof in tests/answers")
    for number in sorted(set(numbers)):
        if numbers.count(number) > 1:
            found.append(f"{stem} has two exercises {number}")
        if number not in exported:
            found.append(f"{stem} exports no solution of {number}")
    for number in sorted({*exported, *proofs} - set(numbers)):
        found.append(f"{stem} has a solution or proof, but no exercise {number}")
    return found
