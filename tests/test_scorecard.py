"""The scorecard: what each way to train gets right, and by how much it misses."""

from __future__ import annotations

import pytest

from helpers import equivalence
from helpers.equivalence.scorecard import SITUATIONS, TOLERANCE, said
from helpers.equivalence.ways import WAYS

EXACT = ["the shared loop", "Accelerate, by windows", "Trainer, repaired"]


@pytest.fixture(scope="module")
def card():
    return equivalence.scorecard()


def test_every_way_meets_every_situation(card):
    assert card.ways == tuple(WAYS)
    assert len(card.errors) == len(SITUATIONS) == len(card.situations)
    assert all(len(row) == len(WAYS) for row in card.errors)


@pytest.mark.parametrize("way", EXACT)
def test_what_the_course_teaches_is_exact_in_every_situation(card, way):
    assert card.exact(way), card.column(way)


def test_hand_loops_in_float64_are_exact_to_rounding(card):
    for way in ("the shared loop", "Accelerate, by windows"):
        column = card.column(way)
        assert all(error < 1e-12 for error in column.values()), column


def test_the_textbook_loops_miss_where_windows_are_not_full(card):
    slides, repair = card.column("the slides' loop"), card.column("the usual repair")
    assert slides["full windows"] < 1e-12 and repair["full windows"] < 1e-12
    assert slides["short last window"] > 0.3 and slides["number of updates"] > 0.3
    assert 0.1 < repair["short last window"] < slides["short last window"]
    assert repair["number of updates"] == 0
    documented = card.column("Accelerate, documented")
    for name in ("short last window", "ragged last batch", "unequal targets"):
        assert documented[name] == pytest.approx(repair[name], rel=1e-6)


def test_some_ways_alone_can_be_asked_for():
    card = equivalence.scorecard(["the slides' loop"])
    assert card.ways == ("the slides' loop",)
    with pytest.raises(ValueError, match="There is no way 'x'; known are: the slides'"):
        equivalence.scorecard(["x"])


def test_it_shows_itself_as_text_and_as_a_table(card):
    text, page = str(card), card._repr_html_()
    assert all(way in text for way in WAYS) and "✔" in text and "✘ 0." in text
    assert page.count("<tr>") == 1 + len(SITUATIONS)
    assert said(float("nan")) == "✘ NaN" and said(TOLERANCE / 2) == "✔"
