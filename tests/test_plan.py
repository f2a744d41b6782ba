"""A plan fits, the next larger micro-batch does not, the effective batch is kept."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as draw

from helpers import memory, models, training
from tests.test_forecast import OPTIMIZERS, Pairs, pairs, texts


@pytest.fixture(scope="module")
def costs() -> memory.Forecast:
    return memory.forecast(models.classifier, texts)


def runs(rows: int, budget: int, effective_batch: int = 64) -> bool:
    """Whether real updates with micro-batches of `rows` rows stay in the budget."""
    model = models.classifier()
    optimizer = torch.optim.AdamW(model.parameters())
    sizes = [rows] * (effective_batch // rows)
    sizes += [effective_batch % rows] * bool(effective_batch % rows)
    try:
        for _ in range(2):  # the state of the optimizer comes with the first
            with memory.limit(budget, model, optimizer):
                window = [texts(size) for size in sizes]
                training.accumulate(model, window)
                training.update(model, optimizer)
    except torch.OutOfMemoryError:
        return False
    return True


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5, 0.9, 0.98, 1.0])
def test_plan_runs_under_the_limit_and_one_row_more_does_not(costs, share) -> None:
    low, high = costs.peak(1, 64), costs.peak(64, 1)
    budget = int(low + share * (high - low))
    plan = memory.plan(costs, budget, 64)
    assert plan.effective_batch == 64
    assert runs(plan.micro_batch, budget)
    if plan.micro_batch < 64:
        assert not runs(plan.micro_batch + 1, budget)


def test_a_window_of_several_holds_one_more_copy_of_the_gradients(costs) -> None:
    # 32 rows in one fit to the byte; twice 32 need the gradients of the first besides.
    budget = costs.peak(32, 1)
    assert runs(32, budget, 32) and not runs(32, budget, 64)
    assert memory.plan(costs, budget, 32).micro_batch == 32
    assert costs.peak(32, 2) > budget + 0.95 * 4 * costs.weights
    assert memory.plan(costs, budget, 64).micro_batch < 32


def test_whether_it_fits_does_not_fall_with_the_rows(costs) -> None:
    # 33 + 31 rows hold the first gradients beside 31 rows, 32 + 32 beside 32.
    budget = costs.peak(33, 2, 31)
    assert costs.peak(32, 2) > budget
    assert runs(33, budget) and not runs(32, budget)
    plan = memory.plan(costs, budget, 64)
    assert plan.micro_batch >= 33 and runs(plan.micro_batch, budget)
    assert plan.even[0] < 32


@settings(max_examples=60, deadline=None)
@given(effective=draw.integers(1, 300), share=draw.floats(0, 1))
def test_every_plan_keeps_the_effective_batch(costs, effective, share) -> None:
    low = costs.peak(1, min(effective, 2) if effective > 1 else 1)
    low = max(low, costs.peak(1, effective))
    budget = low + share * (costs.peak(effective, 1) - low)
    plan = memory.plan(costs, max(budget, low), effective)
    sizes = [len(batch) for batch in plan.batches(range(effective))]
    assert sum(sizes) == effective == plan.effective_batch
    assert len(sizes) == plan.accumulation_steps
    assert max(sizes) == plan.micro_batch and sizes[-1] == plan.last
    rows, steps = plan.even
    assert rows * steps == effective and costs.peak(rows, steps) <= plan.budget
    assert plan.peak <= plan.budget


def test_batches_cut_an_epoch_window_by_window(costs) -> None:
    plan = memory.plan(costs, costs.peak(5, 4), 16)
    cut = list(plan.batches(list(range(40))))
    assert [row for batch in cut for row in batch] == list(range(40))
    per_window = math.ceil(16 / plan.micro_batch)
    windows = list(training.windows(cut, per_window))
    assert [sum(map(len, window)) for window in windows] == [16, 16, 8]


def test_below_the_floor_it_says_by_how_much_and_what_would_help(costs) -> None:
    need = costs.peak(1, 64)
    assert runs(memory.plan(costs, need, 64).micro_batch, need)
    assert runs(1, need) and not runs(1, need - 1)
    with pytest.raises(ValueError, match="1 bytes too small") as error:
        memory.plan(costs, need - 1, 64)
    assert "accumulation cannot lower" in str(error.value)
    assert "less state" in str(error.value)
    sgd = memory.forecast(models.classifier, texts, OPTIMIZERS["sgd"])
    with pytest.raises(ValueError) as error:
        memory.plan(sgd, 1000, 64)
    assert "less state" not in str(error.value)


def test_plan_of_a_model_that_is_not_in_line() -> None:
    costs = memory.forecast(Pairs, pairs, OPTIMIZERS["sgd"])
    plan = memory.plan(costs, costs.peak(20, 4), 64)
    assert plan.micro_batch >= 20 and plan.peak <= plan.budget
    assert costs.peak(plan.micro_batch + 1) > plan.budget or plan.last > 1


@pytest.mark.parametrize("budget", [0, -1, math.nan, math.inf, "15GiB", None, True])
def test_budget_has_to_be_bytes(costs, budget) -> None:
    with pytest.raises(ValueError, match="number of bytes above 0"):
        memory.plan(costs, budget, 64)


@pytest.mark.parametrize("batch", [0, -3, 2.5, "64", True])
def test_effective_batch_has_to_be_whole(costs, batch) -> None:
    with pytest.raises(ValueError, match=r"effective_batch is .*whole number"):
        memory.plan(costs, 1e9, batch)


def test_plan_says_itself(costs) -> None:
    text = str(memory.plan(costs, costs.peak(63, 2, 1), 64))
    assert "2 micro-batches of 63 rows, the last one of 1" in text
    assert "in equal parts" in text
