"""Both lessons in a real JupyterLab: what a learner sees, in a light and a dark page.

The pictures lie in COURSE_SCREENSHOTS, if that is set, else in pytest's own folder.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from authoring.project import ROOT
from helpers.exercises import solutions

pytest.importorskip(
    "playwright", reason="the browser test was SKIPPED: playwright is not installed"
)
from playwright.sync_api import expect, sync_playwright

from authoring import browser
from tests.browser import pictures, texts

pytestmark = pytest.mark.browser
LESSONS = ("01_memory_limit", "02_by_hand")
MOST_SECONDS = 180
expect.set_options(timeout=30_000)  # the machine may be busy with other tests
LEAST_CONTRAST = 4.5  # of text, as WCAG asks
WIDTH, HEIGHT = 1440, 1500
# An exercise a lesson, a wrong last line and the words that it must get.
TYPED = {
    "01_memory_limit": (
        "1.1",
        "return ((gradients - full) ** 2).mean()",
        "averaged over the weights too",
    ),
    "02_by_hand": ("2.1", "return loss", "undivided"),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with sync_playwright() as playwright:
        chromium = browser.chromium(playwright)
        if chromium is None:
            pytest.skip(
                "the browser test was SKIPPED: neither Chromium nor Chrome was found, "
                "so nothing was looked at in JupyterLab"
            )
        with browser.serve(tmp_path_factory.mktemp("jupyterlab")) as address:
            yield browser.Lab(chromium, address, WIDTH, HEIGHT)
            chromium.close()


@pytest.fixture(scope="module", params=LESSONS)
def lesson(lab, request):
    """The name of a lesson that is open in the lab and was run from top to bottom."""
    if request.param != LESSONS[0]:  # the first one opens by itself
        lab.open(f"notebooks/{request.param}.ipynb")
    lab.run_all(MOST_SECONDS)
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    named = os.environ.get("COURSE_SCREENSHOTS")
    path = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    path.mkdir(parents=True, exist_ok=True)
    return path


def cells(name, solved=False):
    path = ROOT / "notebooks" / ("solutions" if solved else "") / f"{name}.ipynb"
    return json.loads(path.read_text("utf-8"))["cells"]


def expected(name):
    """What each cell has to show: (is code, has outputs, figures, messages).

    Read off the solved notebook, whose outputs were kept when it was made.
    """
    for cell in cells(name, solved=True):
        outputs = cell.get("outputs", [])
        html = "".join("".join(o.get("data", {}).get("text/html", "")) for o in outputs)
        shown = html.count("<figure"), html.count("role='status'")
        yield cell["cell_type"] == "code", bool(outputs), *shown


def drawn(things):
    return all(thing["width"] > 0 and thing["height"] > 0 for thing in things)


def test_lesson_1_opens_beside_its_contents(lab):
    name = f"{LESSONS[0]}.ipynb"
    expect(lab.page.locator(".lm-DockPanel-tabBar .lm-mod-current")).to_have_text(name)
    contents = lab.page.locator("#table-of-contents")
    expect(contents).to_be_visible()
    assert (
        contents.bounding_box()["x"]
        < lab.page.locator(browser.PANEL).bounding_box()["x"]
    )
    prose = [c for c in cells(LESSONS[0]) if c["cell_type"] == "markdown"]
    text = "\n".join("".join(cell["source"]) for cell in prose)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    assert len(headings) > 5
    expect(contents.locator(".jp-tocItem-content")).to_have_text(headings)


def test_every_cell_runs_and_shows_what_it_should(lab, lesson, folder):
    keep_pictures(lab, folder, lesson, "light")
    shown = lab.cells()
    wrong = [text for cell in shown for text in cell["errors"]]
    assert not wrong, "\n".join(wrong)
    for place, (cell, (code, outputs, figures, messages)) in enumerate(
        zip(shown, expected(lesson), strict=True)
    ):
        where = f"cell {place + 1} of {lesson}: {cell}"
        assert cell["code"] == code, where
        if not code:
            continue
        assert re.fullmatch(r"\[\d+\]:", cell["prompt"]), f"did not run, {where}"
        sizes = [o for o in cell["outputs"] if drawn([o])]
        assert bool(sizes) == outputs, f"another output than expected, {where}"
        assert len(cell["figures"]) == figures, f"{figures} figures expected, {where}"
        assert drawn(cell["figures"]), f"a figure is not drawn, {where}"
        assert all(f["pixels"] and f["alt"] for f in cell["figures"]), where
        assert len(cell["messages"]) == messages, f"{messages} expected, {where}"
        assert drawn(cell["messages"]), f"a message is not drawn, {where}"
        for message in cell["messages"]:
            assert "Not attempted" in message["text"], where
    assert len(solutions.load()[lesson]) == sum(len(c["messages"]) for c in shown)


def test_an_exercise_is_answered_by_keyboard(lab, lesson):
    number, wrong, words = TYPED[lesson]
    tags = [cell["metadata"].get("tags", []) for cell in cells(lesson)]
    place = tags.index([f"exercise-{number}"])
    message = lab.page.locator(browser.CELL).nth(place + 1).locator("[role=status]")
    expect(message).to_contain_text("Not attempted")
    right = solutions.source(lesson, number).splitlines()
    for lines, state, said in (
        ([right[0], wrong], "Not yet", words),
        (right, "Correct", "✔"),
    ):
        lab.walk_to(place)
        lab.retype(lines)
        lab.page.keyboard.press("Shift+Enter")
        lab.page.keyboard.press("Shift+Enter")
        expect(message).to_contain_text(state)
        expect(message).to_contain_text(said)


def test_a_dark_page_is_as_readable(lab, lesson, folder):
    try:
        for theme in (browser.LIGHT, browser.DARK):
            lab.theme(theme)
            faint = [text for text in texts(lab) if text["contrast"] < LEAST_CONTRAST]
            assert not faint, f"{theme}: {faint}"
        keep_pictures(lab, folder, lesson, "dark")
        assert drawn(f for cell in lab.cells() for f in cell["figures"])
    finally:
        lab.theme(browser.LIGHT)


def test_nothing_is_asked_of_another_machine(lab, lesson):
    assert not lab.outside


def keep_pictures(lab, folder, lesson, theme):
    """The notebook from top to bottom, a file a page."""
    for number, picture in enumerate(pictures(lab), 1):
        (folder / f"{lesson}-{theme}-{number:02}.png").write_bytes(picture)
