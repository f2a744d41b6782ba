"""The forecast equals what a real update takes, to the byte, or says why it cannot."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from helpers import memory, models
from helpers.memory.real import measured

OPTIMIZERS = {
    "adamw": torch.optim.AdamW,
    "momentum": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
    "sgd": lambda weights: torch.optim.SGD(weights, lr=0.1),
    "adafactor": torch.optim.Adafactor,
}
SETTINGS = {
    "plain": {},
    "checkpointing": {"checkpointing": True},
    "bf16": {"autocast": torch.bfloat16},
}


def texts(rows: int) -> dict[str, torch.Tensor]:
    mask = torch.ones(rows, 24, dtype=torch.long)
    mask[:, -3:] = 0
    return {
        "input_ids": torch.full((rows, 24), 7),
        "attention_mask": mask,
        "labels": torch.zeros(rows, dtype=torch.long),
    }


class Pairs(nn.Module):
    """In-batch negatives: its scores are rows x rows, not a multiple of the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 4)

    def forward(self, x, labels):
        scores = self.embed(x) @ x.T
        scores = scores.softmax(-1) * scores.exp()
        return SimpleNamespace(loss=nn.functional.cross_entropy(scores, labels))


def pairs(rows: int) -> dict[str, torch.Tensor]:
    return {"x": torch.ones(rows, 4), "labels": torch.arange(rows)}


class RowByRow(nn.Module):
    """One operation a row, so the number of operations depends on the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x, labels):
        return SimpleNamespace(loss=sum(self.linear(row).relu().mean() for row in x))


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Conv1d(1, 8, 3)

    def forward(self, x, labels):
        return SimpleNamespace(loss=self.filter(x[:, None]).relu().mean())


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_forecast_equals_a_real_update_to_the_byte(optimizer, settings) -> None:
    costs = memory.forecast(
        models.classifier, texts, OPTIMIZERS[optimizer], **SETTINGS[settings]
    )
    for rows, steps, last in ((1, 1, 1), (1, 4, 1), (8, 1, 8), (7, 2, 7), (16, 3, 5)):
        real = measured(costs.make, costs.settings, rows, steps, last)
        assert costs.peak(rows, steps, last) == real, (rows, steps, last)


def test_the_split_is_the_meters() -> None:
    from helpers import training

    costs = memory.forecast(models.classifier, texts)
    model, window = models.classifier(), [texts(9), texts(9)]
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        with memory.Meter(model, optimizer) as meter:
            training.accumulate(model, window)
            training.update(model, optimizer)
    assert costs.at_peak(9, 2) == meter.at_peak


@pytest.mark.parametrize(
    ("model", "batch"),
    [(Pairs, pairs), (RowByRow, lambda n: pairs(n) | {"x": torch.ones(n, 64)})],
)
def test_what_is_not_in_line_with_the_rows_is_run_and_said(model, batch) -> None:
    costs = memory.forecast(model, batch, OPTIMIZERS["sgd"])
    assert any("do not grow in line" in note for note in costs.notes)
    for rows, steps in ((1, 1), (40, 1), (64, 2)):
        assert costs.peak(rows, steps) == measured(
            costs.make, costs.settings, rows, steps
        )


def test_in_line_nothing_is_said_about_it() -> None:
    costs = memory.forecast(models.classifier, texts)
    assert not any("in line" in note for note in costs.notes)
    assert costs.weights == sum(p.numel() for p in models.classifier().parameters())


def test_a_model_that_is_given_stays_as_it_is() -> None:
    model = models.classifier().eval()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    costs = memory.forecast(model, texts)
    assert costs.peak(8, 2) == memory.forecast(models.classifier, texts).peak(8, 2)
    assert not model.training
    for name, weight in model.state_dict().items():
        assert type(weight) is torch.Tensor and torch.equal(weight, before[name])
    assert all(p.grad is None for p in model.parameters())


def test_a_mask_of_ones_is_said_to_be_dropped_by_a_real_run() -> None:
    def full(rows: int) -> dict[str, torch.Tensor]:
        return texts(rows) | {"attention_mask": torch.ones(rows, 24, dtype=torch.long)}

    costs = memory.forecast(models.classifier, full)
    assert any("all ones" in note for note in costs.notes)
    assert costs.peak(16) >= measured(costs.make, costs.settings, 16, 1)


def test_kernels_with_workspaces_are_named() -> None:
    def batch(rows: int) -> dict[str, torch.Tensor]:
        return {"x": torch.ones(rows, 16), "labels": torch.zeros(rows)}

    costs = memory.forecast(Convolution, batch)
    assert any("Conv1d" in note for note in costs.notes)


def test_values_that_the_code_reads_are_said_to_be_unknown() -> None:
    assert any(
        "asked for a tensor's value" in note
        for note in memory.forecast(
            models.classifier, texts, torch.optim.Adafactor
        ).notes
    )


def test_calibration_on_a_cpu_finds_nothing_to_add() -> None:
    costs = memory.forecast(models.classifier, texts).calibrated()
    assert costs.overhead == 0
    assert "0 bytes more" in costs.notes[-1]


def test_overhead_is_added_to_every_peak() -> None:
    from dataclasses import replace

    costs = memory.forecast(models.classifier, texts)
    more = replace(costs, overhead=1000)
    assert more.peak(4, 2) == costs.peak(4, 2) + 1000
    assert more.at_peak(4, 2)["overhead"] == 1000
    assert more.floor == costs.floor + 1000


def test_floor_is_what_no_micro_batch_goes_below() -> None:
    costs = memory.forecast(models.classifier, texts)
    per_row = costs.peak(2, 2) - costs.peak(1, 2)
    assert 0 < costs.floor <= costs.peak(1, 2) <= costs.floor + max(per_row, 10_000)
    weights = costs.weights * 4
    assert costs.floor >= 4 * weights  # weights, gradients, two moments


def test_a_billion_weights_in_a_process_that_could_not_hold_them() -> None:
    code = """if True:
        import torch
        from benchmarks.large import held
        from torch import nn
        from types import SimpleNamespace
        from helpers import memory

        class Wide(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.Sequential(*(nn.Linear(8192, 8192) for _ in range(15)))
            def forward(self, x, labels):
                return SimpleNamespace(loss=self.layers(x).mean())

        batch = lambda n: {"x": torch.zeros(n, 8192), "labels": torch.zeros(n)}
        costs = memory.forecast(Wide, batch)
        print(costs.weights, costs.peak(1), int(held() * 2**20))
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    weights, foretold, process = map(int, done.stdout.split())
    assert weights > 1_000_000_000 and foretold > 16e9
    assert process < 1.5 * memory.GiB


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "8"])
def test_rows_and_steps_have_to_be_whole(value) -> None:
    costs = memory.forecast(models.classifier, texts)
    with pytest.raises(ValueError, match=r"micro_batch is .*whole number from 1"):
        costs.peak(value)
    with pytest.raises(ValueError, match=r"accumulation_steps is .*whole number"):
        costs.peak(1, value)


def test_a_model_without_checkpointing_says_so() -> None:
    with pytest.raises(ValueError, match="Pairs has no gradient checkpointing"):
        memory.forecast(Pairs, pairs, checkpointing=True)


def test_a_batch_without_labels_says_so() -> None:
    def unlabelled(rows: int) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.ones(rows, 8, dtype=torch.long)}

    with pytest.raises(ValueError, match="`labels`"):
        memory.forecast(models.classifier, unlabelled)


def test_text_has_a_row_for_each_size_and_the_notes() -> None:
    costs = memory.forecast(models.classifier, texts, checkpointing=True)
    shown = str(costs)
    assert "checkpointing" in shown and "AdamW" in shown
    for rows in (1, 2, 4, 8, 16, 32, 64):
        assert f"\n{rows:<12}{costs.peak(rows) / memory.MiB:>12,.1f}" in shown
    assert all(note in shown for note in costs.notes)
