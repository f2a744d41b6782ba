"""The linter finds what it is for, and lets good prose pass."""

from __future__ import annotations

import pytest

from authoring import lint, prose, rules, style
from authoring.build import lessons
from authoring.project import ROOT
from authoring.source import Cell, Lesson
from tests import sample_course


@pytest.mark.parametrize(
    "text",
    [
        "It takes 3.5 seconds.",
        "The peak is 120 MiB.",
        "It is four times less.",
        "The loss is 0.25.",
        "The error is 1e-12.",
        "There are 2036 rows.",
        "There are 78,000 weights.",
        "About 80 % of it.",
        "| peak | 12 MiB |",
    ],
)
def test_a_number_that_no_cell_computes_is_found(text):
    assert len(rules.numbers(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Exercise 2.1 asks for two lines.",
        "It was published in 2019.",
        "Take `batch_size=128` and $1.5x$.",
        "It takes 45 minutes. <!-- definition -->",
        "The paper says 32 GB. <!-- cited -->",
        "They report [76.3 %](https://arxiv.org/abs/1706.02677).",
        "```\n3.5 seconds\n```",
        "Compare the two columns.",
    ],
)
def test_names_code_definitions_and_cited_numbers_may_stand(text):
    assert rules.numbers(text) == []


@pytest.mark.parametrize(
    ("rule", "text", "words"),
    [
        (rules.wording, "You simply divide.", "'simply'"),
        (rules.wording, "Well done!", "an exclamation mark"),
        (rules.images, "![a plot](x.png)", "fewer than 3 words"),
        (rules.images, '<img src="x" alt="">', "fewer than 3 words"),
        (rules.images, '<img src="x">', "fewer than 3 words"),
        (rules.details, "<summary>a</summary>\ntext", "a blank line"),
        (lambda t: rules.links(t, [ROOT]), "[here](README.md)", "does not say"),
        (lambda t: rules.links(t, [ROOT]), "[the loop](no/file.py)", "is dead"),
        (lambda t: rules.headings([t]), "## a", "exactly one"),
        (lambda t: rules.headings([t]), "# a\n\n# b", "exactly one"),
        (lambda t: rules.headings([t]), "# a\n\n### b", "jumps from 1 to 3"),
        (rules.figures, "plots.bars(x)", "plots.bars needs alt="),
        (rules.figures, "plots.bars(x, alt='two words')", "fewer than 3 words"),
        (rules.figures, "plots.bars(x, alt=f'{a} word')", "fewer than 3 words"),
    ],
)
def test_each_rule_finds_its_breach(rule, text, words):
    (found,) = rule(text)
    assert words in found


def test_good_prose_breaks_no_rule():
    text = (
        "# Title\n\n## Part\n\n![bars grow with the batch](x.png)\n\n"
        "<details><summary>More</summary>\n\nText.</details> "
        "Read [the loop](README.md)."
    )
    assert rules.wording(text) + rules.images(text) + rules.details(text) == []
    assert rules.links(text, [ROOT]) + rules.headings([text]) == []
    assert rules.figures("plots.bars(x, alt='bars that grow', caption=c)") == []
    assert rules.figures("plots.bars(x, **options)") == []


def test_sentences_are_counted_as_a_reader_reads_them():
    text = "One, e.g. this one. [Two](https://a.b/c.d) words here? `a.b. c` is code."
    (block,) = prose.blocks(text)
    found = [prose.words(sentence) for sentence in prose.sentences(block)]
    assert found == [4, 3, 3]


def cell(kind, text, number=0):
    return Cell(f"{kind}{number}", kind, (), text, text)


def test_long_cells_and_sentences_are_over_the_limits():
    long = "\n".join(["x = 1"] * 26)
    words = " ".join(["word"] * 30) + "."
    figures = style.measure(Lesson("x", (cell("code", long), cell("markdown", words))))
    names = {text.partition(" is ")[0] for text in figures.problems()}
    assert names == set(style.LIMITS) - {"line longest"}


def test_short_ones_are_not_and_a_long_line_is():
    line = "x = 1  # " + "a" * 80
    figures = style.measure(Lesson("x", (cell("code", line),)))
    assert figures.problems() == ["line longest is 89, at most 88 is wanted"]


def test_this_course_breaks_no_rule():
    assert lint.readme_problems() == []
    for lesson in lessons():
        assert lint.lesson_problems(lesson) == []
        assert style.measure(lesson).problems() == []


def test_the_command_prints_figures_and_fails_on_a_breach(tmp_path, capsys):
    folder = sample_course.make(tmp_path / "course")
    (folder / "README.md").write_text("# T\n\nText.\n")
    sample_course.change(folder, "../tests/fixtures/sample_checks.py", "../README.md")
    (folder / "notebooks/solutions").mkdir(parents=True)
    assert lint.main(folder) == 0
    out = capsys.readouterr().out
    assert "90_sample" in out
    assert "no rule is broken" in out
    slip = "is recieved!"  # codespell:ignore recieved
    sample_course.change(folder, "is divided once.", slip)
    assert lint.main(folder) == 1
    out = capsys.readouterr().out
    assert "recieved ==> received" in out  # codespell:ignore recieved
    assert "90_sample: an exclamation mark in 'The loss of a window" in out
