"""What an audit leaves behind, which is nothing; what it shows; what it refuses."""

from __future__ import annotations

import copy
import random

import numpy
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from helpers.equivalence import audit
from tests.trainers import (
    LENGTH,
    Counted,
    classified,
    distilbert,
    features,
    llama,
    tokens,
    trainer,
)


def everything(made):
    return {
        "weights": {n: p.clone() for n, p in made.model.state_dict().items()},
        "gradients": [p.grad for p in made.model.parameters()],
        "modes": [m.training for m in made.model.modules()],
        "train": "train" in vars(made.model),
        "attributes": {n: id(v) for n, v in vars(made).items()},
        "arguments": made.args.to_dict(),
        "random": (random.getstate(), torch.get_rng_state().tolist()),
        "numpy": numpy.random.get_state()[1].tolist(),
    }


@pytest.mark.parametrize("training", [True, False])
def test_the_trainer_is_as_it_was(training):
    made = trainer(distilbert(), classified(42))
    made.model.train(training)
    before = everything(made)
    audit(made, apply_remedy=True)
    after = everything(made)
    for name in before:
        if name == "weights":
            assert all(torch.equal(v, after[name][n]) for n, v in before[name].items())
        else:
            assert before[name] == after[name], name


def test_training_after_an_audit_is_training_without_one_bit_for_bit():
    def weights(audited):
        made = trainer(
            distilbert(), classified(42), learning_rate=0.01, num_train_epochs=2
        )
        if audited:
            audit(made, apply_remedy=True)
        made.train()
        return torch.cat([p.detach().flatten() for p in made.model.parameters()])

    assert torch.equal(weights(False), weights(True))


def test_a_trained_trainer_can_be_audited_too():
    made = trainer(Counted(), features(16), 4, 2, max_steps=2)
    made.train()
    state = copy.deepcopy(made.optimizer.state_dict())
    assert audit(made).ratios == pytest.approx([2, 2], abs=1e-4)
    after = made.optimizer.state_dict()
    assert str(state) == str(after)


def test_long_data_are_cut_to_windows_like_its_own():
    made = trainer(distilbert(), classified(4 * 4 * 9 + 6))
    found = audit(made)
    assert [w.micro_batches for w in found.windows] == [4, 4, 2]
    assert [w.targets for w in found.windows] == [16, 16, 6]
    assert any("whole pass" in note for note in found.notes)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: trainer(nn.Linear(2, 2), features(8)), "error of its own"),
        (lambda: trainer(distilbert(), []), "micro-batch"),
    ],
)
def test_where_nothing_can_be_told_the_reason_is(made, words):
    found = audit(made())
    assert found.exact is None
    assert found.verdict.startswith("Cannot tell: ") and words in found.verdict


def test_bad_arguments_are_one_sentence():
    with pytest.raises(TypeError, match="got a Linear"):
        audit(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="at least 1"):
        audit(trainer(distilbert(), classified(8)), windows=0)


def test_it_shows_itself_as_text_and_as_a_table():
    found = audit(trainer(Counted(), features(42)), apply_remedy=True)
    text, page = str(found), found._repr_html_()
    for part in ("ratio", "4.0000", "cause: ", "remedy: trainer.", "With the remedy"):
        assert part in text
    assert page.count("<tr>") == 2 * 4 and "<code>trainer." in page
    assert "✘" in text and "✔ exact" in text


def shifted(outputs, labels, num_items_in_batch=None):
    """The sum of a causal model's losses, divided by the count that is given."""
    kept = labels[:, 1:].reshape(-1)
    logits = outputs.logits[:, :-1].reshape(len(kept), -1)
    return cross_entropy(logits, kept, reduction="sum") / num_items_in_batch


def test_a_loss_function_that_shifts_is_held_against_the_targets_that_are_left():
    made = trainer(
        llama(), tokens([LENGTH] * 16), 2, 4, made={"compute_loss_func": shifted}
    )
    labels = torch.ones(8, LENGTH, dtype=torch.long)
    counted = int(made._get_num_items_in_batch([{"labels": labels}], labels.device))
    true = 8 * (LENGTH - 1)  # a shift removes one label of each row
    found = audit(made)
    assert [w.targets for w in found.windows] == [true, true]
    assert found.ratios == pytest.approx([true / counted] * 2, abs=1e-4)
