"""The audit from a shell: one head, a checkpoint, a sweep, and what it refuses."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pytest

from helpers.equivalence import __main__ as shell
from helpers.equivalence import heads, sweep, tiny
from helpers.equivalence.heads import Result
from tests.trainers import distilbert, factor


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    monkeypatch.setattr(shell, "_quiet", lambda: None)  # it is for a whole process


def run(*arguments, capsys):
    status = shell.main(arguments)
    return status, capsys.readouterr()


def test_an_exact_head_ends_with_0(capsys):
    status, said = run("--model", "llama", "--task", "causal-lm", capsys=capsys)
    assert status == 0
    assert "LlamaForCausalLM, causal-lm, k = 4" in said.out
    assert "Every update is the reference." in said.out


@pytest.mark.parametrize("steps", ["2", "8"])
def test_a_head_that_drops_the_count_ends_with_1(capsys, steps):
    status, said = run(
        "--model", "distilbert", "--accumulation-steps", steps, "--json", capsys=capsys
    )
    row = json.loads(said.out)
    times = factor(distilbert(), int(steps))
    assert status == (times > 1)
    assert row["ratios"][0] == pytest.approx(times, abs=1e-4)
    assert row["head"] == "DistilBertForSequenceClassification"


def test_what_cannot_be_built_ends_with_2_and_says_why(capsys, monkeypatch):
    def cannot(*_, **__):
        raise tiny.CannotBuild("it needs a package that is not here")

    monkeypatch.setattr(tiny, "build", cannot)
    status, said = run("--model", "distilbert", capsys=capsys)
    assert status == 2
    assert "Cannot tell: it needs a package that is not here" in said.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "distilber"], "the nearest are distilbert"),
        (["--model", "distilbert", "--task", "token"], "token-classification"),
        (["--model", "distilbert", "--accumulation-steps", "0"], "1 or more"),
    ],
)
def test_bad_arguments_are_one_sentence(capsys, arguments, words):
    status, said = run(*arguments, capsys=capsys)
    assert status == 2
    assert words in said.err and len(said.err.splitlines()) == 1


def test_without_a_choice_the_usage_is_shown(capsys):
    with pytest.raises(SystemExit) as caught:
        shell.main([])
    assert caught.value.code == 2
    assert "--model, --checkpoint, --all or --list" in capsys.readouterr().err


def test_list_names_the_architectures(capsys):
    status, said = run("--task", "masked-lm", "--list", capsys=capsys)
    assert status == 0
    assert {"bert", "distilbert"} <= set(said.out.split())


def test_a_checkpoint_in_a_folder_is_audited(capsys, tmp_path):
    distilbert().save_pretrained(tmp_path)
    status, said = run("--checkpoint", str(tmp_path), "--json", capsys=capsys)
    row = json.loads(said.out.splitlines()[-1])
    assert row["ratios"][0] == pytest.approx(factor(distilbert()), abs=1e-4)
    assert status == (factor(distilbert()) > 1)


def test_a_sweep_ends_whatever_its_processes_do(monkeypatch, tmp_path):
    good = json.dumps(vars(Result("good", "t", 2, "G", True)))
    answers = {
        "good": f"print({json.dumps(good)})",
        "dies": "import os; print('x'); os._exit(3)",
        "loud": "raise ValueError('no way')",
        "slow": "import time; time.sleep(60)",
    }
    real, ended = subprocess.run, []

    def instead(command, **named):
        model = command[command.index("--model") + 1]
        return real([sys.executable, "-c", answers[model]], **named)

    monkeypatch.setattr(subprocess, "run", instead)
    results = sweep.sweep(
        list(answers), "t", 2, seconds=3, jobs=2, done=lambda: ended.append(1)
    )
    assert [result.model for result in results] == list(answers)
    assert [result.exact for result in results] == [True, None, None, None]
    assert "ended with 3" in results[1].why
    assert "no way" in results[2].why
    assert results[3].why == "not done after 3 seconds"
    assert len(ended) == 4
    text = sweep.table(results)
    assert text.splitlines()[-1] == "1 exact, 3 cannot tell"
    assert "seconds" not in text.splitlines()[0]
    sweep.write_csv(results, tmp_path / "table.csv")
    with open(tmp_path / "table.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["exact"] for row in rows] == ["exact"] + ["cannot tell"] * 3


@pytest.mark.parametrize(
    ("states", "status"), [([True, None], 0), ([True, False], 1), ([None], 2)]
)
def test_the_status_of_a_sweep(monkeypatch, capsys, states, status):
    monkeypatch.setattr(tiny, "architectures", lambda _: ["m"] * len(states))
    made = [Result("m", "t", 4, exact=state) for state in states]
    monkeypatch.setattr(sweep, "sweep", lambda *_, **__: made)
    assert shell.main(["--all"]) == status
    assert "cannot tell" in capsys.readouterr().out or None not in states


def test_one_architecture_in_a_process_of_its_own():
    (result,) = sweep.sweep(["distilbert"], "sequence-classification", 2)
    assert result.head == "DistilBertForSequenceClassification"
    assert result.seconds < 15 or result.exact is not None
    assert heads.AUTO.keys() == tiny.TASKS.keys()
