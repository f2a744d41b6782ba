"""The forecast from a shell: table, plan, picture, what lies below, what is refused."""

from __future__ import annotations

import argparse
import json

import pytest
from PIL import Image

from helpers import memory
from helpers.memory import __main__ as shell
from helpers.memory import presets, shell_text
from helpers.memory.presets import PRESETS, Preset

LIMITS = ("--effective-batch", "12", "--sequence-length", "16")
TINY = {
    "vocab_size": 500,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 64,
    "use_cache": False,
}
# What a user's own file may hold.
MINE = """
from helpers.memory.presets import PRESETS
def training(length):
    return PRESETS["tiny"].make_model, PRESETS["tiny"].make_batch(length)
def wrong(length):
    return PRESETS["tiny"]
"""


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    preset = Preset("tiny", "none", "causal-lm", 64, "gpt2", TINY)
    monkeypatch.setitem(PRESETS, "tiny", preset)
    monkeypatch.setattr(shell, "_quiet", lambda: None)  # it is for a whole process
    return memory.forecast(preset.make_model, preset.make_batch(16))


def run(*arguments, capsys):
    status = shell.main(["--model", "tiny", *LIMITS, "--device", "cpu", *arguments])
    return status, capsys.readouterr()


def test_a_plan_ends_with_0_and_every_figure_is_the_forecasts(capsys, tiny):
    budget = tiny.peak(5, 3)
    status, said = run("--budget", f"{budget}B", "--json", capsys=capsys)
    facts = json.loads(said.out)
    plan = memory.plan(tiny, budget, 12)
    assert status == 0 and not facts["below"] and not facts["ways"]
    assert facts["plan"]["micro_batch"] == plan.micro_batch == 5
    assert facts["plan"]["accumulation_steps"] == 3 and facts["plan"]["last"] == 2
    assert facts["floor"] == tiny.floor and facts["weights"] == tiny.weights
    assert facts["notes"] == tiny.notes and facts["seconds"] > 0
    table = {row["micro_batch"]: row for row in facts["micro_batches"]}
    assert [*table] == [1, 2, 4, 5, 8, 12]
    for rows, row in table.items():
        steps = -(-12 // rows)
        assert row["accumulation_steps"] == steps
        last = 12 - rows * (steps - 1)
        assert row["peak"] == tiny.peak(rows, steps, last)
        assert row["by_kind"] == tiny.at_peak(rows, steps, last)
        assert row["fits"] == (rows <= 5)


def test_the_page_shows_table_bars_plan_and_notes(capsys, tiny):
    status, said = run("--budget", f"{tiny.peak(5, 3)}B", capsys=capsys)
    lines = said.out.splitlines()
    assert status == 0 and not said.err
    assert all(len(line) <= shell_text.WIDE for line in lines), lines
    rows = [line.split() for line in lines if line.strip()[:1].isdigit()]
    assert [row[:2] for row in rows[:2]] == [["1", "12"], ["2", "6"]]
    verdicts = ["too large" if "too large" in line else "fits" for line in lines[4:10]]
    assert verdicts == ["fits"] * 4 + ["too large"] * 2
    assert "Of micro-batch 5, at the peak:" in said.out
    joined = " ".join(said.out.split())
    assert "3 micro-batches of 5 rows, the last one of 2" in joined
    assert all(note in joined for note in tiny.notes)


def test_a_bar_has_a_letter_for_each_part_and_the_length_of_its_share():
    split = {"parameters": 25, "activations": 50, "overhead": 25}
    bar = shell_text._bar(split, 200)
    assert len(bar) == shell_text.BAR / 2
    assert bar == "P" * 4 + "A" * 9 + "X" * 4


def test_below_the_floor_ends_with_1_and_says_what_would_lower_it(capsys, tiny):
    budget = tiny.peak(1, 2) - 1
    status, said = run("--budget", f"{budget}B", capsys=capsys)
    assert status == 1
    with pytest.raises(ValueError) as caught:
        memory.plan(tiny, budget, 12)
    assert str(caught.value) in said.err
    assert "What would lower it" in said.out and "Plan:" not in said.out
    preset = PRESETS["tiny"]
    sgd = memory.forecast(
        preset.make_model, preset.make_batch(16), presets.OPTIMIZERS["sgd"]
    )
    line = next(li for li in said.out.splitlines() if "--optimizer sgd" in li)
    assert shell_text.size(sgd.peak(1, 2)) in line and line.endswith("fits")


def test_what_is_on_already_is_not_offered_and_nothing_is_forecast_for_a_plan(
    capsys, monkeypatch, tiny
):
    calls = []
    real = memory.forecast

    def counted(*given, **settings):
        calls.append(settings)
        return real(*given, **settings)

    monkeypatch.setattr(memory, "forecast", counted)
    run("--budget", "1GiB", capsys=capsys)
    assert len(calls) == 1
    options = ("--optimizer", "sgd", "--checkpointing", "--json")
    status, said = run("--budget", "1KiB", *options, capsys=capsys)
    assert status == 1
    assert [*json.loads(said.out)["ways"]] == [
        "--precision bf16",
        "--optimizer adafactor",
    ]


def test_a_way_that_the_model_lacks_says_so(capsys, monkeypatch):
    real = memory.forecast

    def without(*given, checkpointing, **settings):
        if checkpointing:
            raise ValueError("Tiny has no gradient checkpointing of its own.")
        return real(*given, checkpointing=checkpointing, **settings)

    monkeypatch.setattr(memory, "forecast", without)
    status, said = run("--budget", "1KiB", capsys=capsys)
    assert status == 1
    assert "--checkpointing: Tiny has no gradient checkpointing" in said.out


def test_the_picture_is_written_with_its_words(capsys, tmp_path):
    path = tmp_path / "bars.png"
    status, _ = run("--budget", "1GiB", "--picture", str(path), capsys=capsys)
    with Image.open(path) as picture:
        assert picture.width == 1400
        assert "Foretold peak memory of tiny" in picture.info["Description"]
    assert status == 0


def test_a_model_of_ones_own(capsys, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    status, said = run("--model", f"{path}:training", "--budget", "1GiB", capsys=capsys)
    assert status == 0 and f"{path}:training: " in said.out
    for function, words in (("wrong", "gives make_model"), ("none", "not callable")):
        status, said = run(
            "--model", f"{path}:{function}", "--budget", "1GiB", capsys=capsys
        )
        assert status == 2 and words in said.err
        assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "tinny"], "no preset 'tinny': take distilbert-base, bert-base"),
        (["--model", "nowhere.py:training"], "nowhere.py"),
        (["--sequence-length", "65"], "sequence_length is 65; tiny takes"),
        (["--picture", "/nowhere/at/all.png"], "/nowhere/at/all.png"),
        (["--picture", "bars.nothing"], "nothing"),
    ],
)
def test_bad_arguments_are_one_sentence(capsys, arguments, words):
    status, said = run("--budget", "1GiB", *arguments, capsys=capsys)
    assert status == 2
    assert words in said.err and len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("15GiB", 15 * 2**30),
        ("24GB", 24 * 10**9),
        ("1.5 gib", 3 * 2**29),
        ("512MiB", 2**29),
        ("100B", 100),
        (".5TiB", 2**39),
    ],
)
def test_sizes_are_read(text, size):
    assert shell.size(text) == size


@pytest.mark.parametrize(
    "text", ["15", "15G", "GiB", "-1GiB", "0GiB", "1e3MB", "", "x"]
)
def test_sizes_that_are_none_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="15GiB or 512MiB"):
        shell.size(text)


@pytest.mark.parametrize(
    "arguments",
    [["--budget", "15"], ["--effective-batch", "0"], ["--optimizer", "lion"], []],
)
def test_what_the_parser_refuses_ends_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        shell.main(["--model", "tiny", *arguments])
    assert caught.value.code == 2


def test_help_teaches_what_accumulation_lowers(capsys):
    with pytest.raises(SystemExit) as caught:
        shell.main(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert caught.value.code == 0
    assert "That lowers the activations only" in said
    assert all(name in said for name in PRESETS)
