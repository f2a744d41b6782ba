"""Whatever a lesson lacks, checks, proofs or solutions, is found."""

from __future__ import annotations

from types import ModuleType

import pytest

from helpers.exercises import (
    Exercise,
)
from tests.answers import Proof
from tests.enumerating import course_faults, exercises
from tests.test_proving import GOOD, LESSON, half, make, where


def module(**named) -> ModuleType:
    made = ModuleType("lesson_02")
    vars(made).update(named)
    return made


@pytest.fixture
def lessons(tmp_path):
    folder = tmp_path / "lessons"
    folder.mkdir()
    return folder


def whole(lessons):
    (lessons / "02_fake.py").write_text("")
    checks = {"lesson_02": module(where=where(), halved=make())}
    exported = {LESSON: {"2.1": "", "2.2": ""}}
    return [lessons, checks, {"lesson_02": {"2.1": Proof(**GOOD)}}, exported]


def test_a_whole_lesson_and_no_lesson_have_no_fault(lessons):
    assert course_faults(lessons, {}, {}, {}) == []
    assert course_faults(*whole(lessons)) == []


def test_exercises_come_in_the_order_of_their_numbers(lessons):
    assert list(exercises(whole(lessons)[1]["lesson_02"])) == ["halved", "where"]


WITHOUT = {
    "no checks": (1, {}, "has no helpers/checks/lesson_02.py"),
    "no exercise": (1, {"lesson_02": module()}, "has no exercise"),
    "no proofs": (2, {}, "has no tests/answers/lesson_02.py"),
    "no proof": (2, {"lesson_02": {}}, "halved> has no proof"),
    "proof of nothing": (
        2,
        {"lesson_02": {"2.1": Proof(**GOOD), "2.8": Proof(**GOOD)}},
        "no exercise 2.8",
    ),
    "no solutions": (3, {}, "exports no solution of 2.1"),
    "other solution": (3, {LESSON: {"2.7": ""}}, "no exercise 2.7"),
    "other lesson": (3, {"03_x": {"3.1": ""}}, "solutions of 03_x belongs to no file"),
    "two names": (1, {"lesson_02": module(half=make())}, "use one name for both"),
    "twice": (
        1,
        {"lesson_02": module(halved=make(), where=make(name="where"))},
        "two exercises 2.1",
    ),
    "foreign number": (
        1,
        {"lesson_02": module(halved=make(number="3.1"))},
        "number of another lesson",
    ),
    "foreign lesson": (
        1,
        {
            "lesson_02": module(
                halved=Exercise("2.1", "halved", half, hints=["a", "b"], lesson="x")
            )
        },
        "says lesson x",
    ),
}


@pytest.mark.parametrize(("place", "instead", "words"), WITHOUT.values(), ids=WITHOUT)
def test_what_a_lesson_lacks_is_found(lessons, place, instead, words):
    parts = whole(lessons)
    parts[place] = instead
    found = course_faults(*parts)
    assert any(words in fault for fault in found), found


def test_checks_and_proofs_of_no_lesson_are_found(lessons):
    parts = whole(lessons)
    (lessons / "02_fake.py").unlink()
    found = course_faults(*parts)
    assert [fault.split(" lesson_02")[0] for fault in found[:2]] == [
        "the checks module",
        "the proofs module",
    ]
