"""The audit agrees with a measurement that shares nothing with it, head by head."""

from __future__ import annotations

import copy
import random

import pytest
import torch
import transformers

from helpers.equivalence import audit, tiny
from tests.trainers import trainer

EACH = 4  # heads of a task
STEPS, ROWS = 4, 2
TASKS = (
    "sequence-classification",
    "token-classification",
    "masked-lm",
    "causal-lm",
    "image-classification",
)


def drawn(task):
    """Some heads of a task, drawn at random once and for all, that can be built."""
    names = tiny.architectures(task)
    random.Random(2026).shuffle(names)
    found = []
    for name in names:
        try:
            found.append((name, tiny.build(name, task)))
        except tiny.CannotBuild:
            continue
        if len(found) == EACH:
            return found
    raise AssertionError(f"fewer than {EACH} heads of {task} can be built")


def stacked(rows):
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def made(model, rows):
    return trainer(
        model,
        rows,
        ROWS,
        STEPS,
        in_order=True,
        made={"data_collator": stacked},
        max_grad_norm=0,
        optim="sgd",
        max_steps=1,
        remove_unused_columns=False,
    )


def flat(model):
    return torch.cat(
        [
            (torch.zeros_like(p) if p.grad is None else p.grad).flatten().double()
            for p in model.parameters()
        ]
    )


class Grab(transformers.TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        self.gradient = flat(model)


def measured(model, rows):
    """Ratio and residual: one real update of a Trainer against one backward."""
    whole = copy.deepcopy(model).train()
    whole(**stacked(rows)).loss.backward()
    wanted = flat(whole)
    grab, run = Grab(), made(copy.deepcopy(model), rows)
    run.add_callback(grab)
    run.train()
    ratio = (grab.gradient @ wanted) / (wanted @ wanted)
    residual = (grab.gradient - ratio * wanted).norm() / wanted.norm()
    return ratio.item(), residual.item()


@pytest.mark.parametrize("task", TASKS)
def test_the_audit_agrees_with_a_direct_measurement(task):
    for name, model in drawn(task):
        batches = [
            tiny.batch(model, name, task, ROWS, seed=seed) for seed in range(STEPS)
        ]
        rows = [
            {key: value[i] for key, value in batch.items()}
            for batch in batches
            for i in range(ROWS)
        ]
        ratio, residual = measured(model, rows)
        found = audit(made(copy.deepcopy(model), rows))
        assert found.compared, f"{name}: {found.verdict}"
        (comparison,) = found.compared
        assert comparison.ratio == pytest.approx(ratio, rel=1e-3, abs=1e-4), name
        assert comparison.residual == pytest.approx(residual, rel=1e-2, abs=1e-4), name


def test_esm_honours_the_count():
    name, task = "esm", "sequence-classification"
    model = tiny.build(name, task)
    batches = [tiny.batch(model, name, task, ROWS, seed=seed) for seed in range(10)]
    rows = [
        {key: value[i] for key, value in batch.items()}
        for batch in batches
        for i in range(ROWS)
    ]
    found = audit(made(model, rows))
    assert found.exact and len(found.compared) == 3
