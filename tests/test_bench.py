"""What the benchmark promises and can be decided to the byte, on a sample of it."""

import json
from dataclasses import replace

import pytest
import torch

from benchmarks import accumulation, accuracy, budgets, cases, document, loops, speed
from benchmarks.__main__ import PARTS, main
from benchmarks.report import Check, Part, Setting, Spread, markdown
from helpers import data, memory, models
from helpers.equivalence.twin import undisturbed

QUICK = Setting(torch.device("cpu"), quick=True)


@pytest.mark.parametrize("combination", accuracy.QUICK, ids="-".join)
def test_a_forecast_is_the_measured_peak_to_the_byte(combination):
    name, optimizer, variant = combination
    case = cases.small(name)
    _, found = accuracy.compare(case, optimizer, variant, accuracy.WINDOWS, QUICK)
    for window, (forecast, measured) in zip(accuracy.WINDOWS, found, strict=True):
        assert forecast == measured, window


def test_the_grid_is_as_large_as_promised():
    assert len(cases.NAMES) >= 6
    assert len(cases.OPTIMIZERS) == 3
    assert set(cases.VARIANTS) == {"plain", "checkpointing", "bf16"}
    assert sum(map(len, budgets.MEBIBYTES.values())) >= 11


@pytest.mark.parametrize("mebibytes", (2, 6, 20))
def test_a_plan_runs_and_one_row_more_does_not(mebibytes):
    case = cases.small("DistilBERT", **budgets.SHAPE)
    costs = memory.forecast(case.model, case.make_batch)
    said, runs, more, _ = budgets.planned(case, costs, mebibytes * memory.MiB, QUICK)
    assert more is False
    assert runs is (None if mebibytes == 2 else True), said


def test_activations_are_in_step_with_the_micro_batch():
    part = accumulation.run(QUICK)
    assert part.checks[0].kept
    assert part.checks[0].limit == 2
    assert len(part.rows) == 3


@pytest.fixture
def work(tmp_path):
    loader = data.loader(data.load("tickets"), 8, rows=64)
    start = models.classifier("tiny")
    return loops.Work(start, loader, 4, str(tmp_path), QUICK.device)


def test_the_four_loops_do_the_same_work(work):
    with undisturbed():
        ready = {name: way(work) for name, way in loops.WAYS.items()}
        assert speed._apart(ready, work) < speed.SAME


def test_a_loop_that_does_other_work_is_seen(work):
    with undisturbed():
        ready = {
            "bare loop": loops.bare(work),
            "other": loops.bare(replace(work, rate=0.101)),
        }
        assert speed._apart(ready, work) > speed.SAME


def test_a_missed_promise_is_told():
    assert Check("a", 1.0, "≤", 1.0).kept
    assert not Check("a", 1.01, "≤", 1.0).kept
    assert not Check("a", Spread.of([0.9, 0.97, 1.2]), "≥", 0.98).kept
    assert Check("a", 5).kept
    assert str(Check("speed", 0.5, "≥", 0.98, " ×")) == (
        "✘ speed: 0.5 ×, wanted ≥ 0.98 ×"
    )


def test_a_missed_promise_is_the_exit_status(monkeypatch, capsys):
    kept = Part("t", "x", ["a"], [[1]], [Check("a", 1, "=", 1)])
    missed = Part("t", "x", ["a"], [[1]], [Check("a", 2, "=", 1)])
    monkeypatch.setattr("benchmarks.__main__._measure", lambda name, _: parts[name])
    parts = {"loops": kept, "meter": missed}
    assert main(["--quick", "--only", "loops"]) == 0
    assert main(["--quick", "--only", "loops,meter"]) == 1
    assert "✘ a: 2, wanted = 1" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--only", "nonsense"])
    assert "nonsense" in capsys.readouterr().err


def test_results_of_one_part_and_device_leave_the_others(tmp_path):
    machine = {"device": "2 CPU cores", "versions": "torch 1", "date": "2030-01-01"}
    part = Part("Loops", "how", ["a", "b"], [["x", Spread(1, 0.9, 1.1)]],
                [Check("speed", Spread(1.0, 0.9, 1.1), "≥", 0.98, " ×")])  # fmt: skip
    results = document.merged({}, "cpu", machine, {"loops": part.as_json()})
    results = document.merged(results, "cpu", machine, {"meter": part.as_json()})
    assert set(results["cpu"]) == {"loops", "meter"}
    (tmp_path / "docs").mkdir()
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- bench -->\nold\n<!-- /bench -->\nb\n")
    document.write(results, tmp_path)
    assert document.load(tmp_path) == json.loads(json.dumps(results))
    text = readme.read_text("utf-8")
    assert text.startswith("a\n<!-- bench -->\nCPU: 2 CPU cores, torch 1, 2030-01-01.")
    assert "GPU: not run yet." in text
    assert "| speed | 1.000 (0.900 to 1.100) × |  | ≥ 0.98 × |" in text
    assert "old" not in text
    assert text.endswith("<!-- /bench -->\nb\n")


def test_the_readme_says_what_the_file_holds():
    root = document.ROOT
    found = document.MARKS.search((root / "README.md").read_text("utf-8"))
    results = document.load()
    assert results, "make bench has not been run"
    assert found[0] == document.summary(results)
    assert (root / "docs" / "bench.md").read_text("utf-8") == document.tables(results)
    assert set(results["cpu"]) == set(PARTS)


def test_numbers_are_shown_for_a_reader():
    table = markdown(["a", "b"], [["x", 1234567], ["y", 0.001234]])
    assert table.splitlines()[1] == "| --- | ---: |"
    assert "1,234,567" in table
    assert "0.00123" in table
