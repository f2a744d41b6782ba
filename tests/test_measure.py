import subprocess
import sys

from authoring import measure, project
from authoring.build import lessons
from authoring.project import ROOT
from authoring.setup_cell import buttons


def test_the_readme_lists_every_lesson_with_its_links():
    text = (ROOT / "README.md").read_text("utf-8")
    here = project.read(ROOT)
    for lesson in lessons():
        number, title = measure.heading(lesson)
        assert f"| {number} | [{title}](notebooks/{lesson.stem}.ipynb)" in text
        assert buttons(here, lesson.stem) in text
        assert f"{measure.minutes(lesson)} min" in text
    for title in measure.COMING.values():
        assert title in text


def test_the_table_has_a_row_for_each_of_eight_lessons():
    course = lessons()
    costs = [measure.Cost(12.3, 456.7)] * len(course)
    rows = measure.table(course, costs, project.read(ROOT)).splitlines()
    assert len(rows) == 2 + 8
    assert "| 12 s | 457 MiB |" in rows[2]


def test_a_lesson_over_the_promise_is_told():
    assert measure.Cost(44.9, 2000).kept(1)
    assert not measure.Cost(45.1, 2000).kept(1)
    assert not measure.Cost(10, 2049).kept(1)
    assert measure.Cost(74.9, 3000).kept(6) and not measure.Cost(10, 3073).kept(6)


def test_the_memory_of_processes_below_is_counted():
    hold = "import time; held = bytearray(150 * 2**20); time.sleep(3)"
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hold!r}])"
    with measure._Peak() as peak:
        subprocess.run([sys.executable, "-c", start], check=True)
    assert 150 < peak.mebibytes < 250


def test_the_measured_lessons_keep_the_promise():
    text = (ROOT / "README.md").read_text("utf-8")
    rows = [row.split("|") for row in text.splitlines() if " min |" in row]
    assert len(rows) == len(lessons())
    for row in rows:
        seconds, mebibytes = row[4].split()[0], row[5].split()[0]
        assert measure.Cost(float(seconds), float(mebibytes)).kept(int(row[1]))


def test_only_the_part_between_the_marks_is_written():
    text = "a\n<!-- lessons -->\nold\n<!-- /lessons -->\nb\n"
    new = measure.MARKS.sub(lambda _: "new\n", text)
    assert new == "a\n<!-- lessons -->\nnew\n<!-- /lessons -->\nb\n"
