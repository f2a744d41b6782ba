"""Whole texts for a language model: rows, micro-batches, and what is a target."""

from __future__ import annotations

import copy

import pytest
import torch

from helpers import data, equivalence, models, texts, training

LENGTHS = (33, 23, 64, 33)


@pytest.fixture(scope="module")
def tickets():
    return texts.of(data.load("tickets"))


@pytest.fixture(scope="module")
def batch(tickets):
    return next(iter(data.loader(tickets, 4, rows=4)))


def test_the_labels_of_a_row_are_its_tokens(tickets):
    for split in data.SPLITS:
        rows = tickets.tokenized(split)
        assert len(rows) == len(getattr(tickets, split))
        assert rows.column_names == ["input_ids", "attention_mask", "labels"]
        assert rows["labels"][:20] == rows["input_ids"][:20]
        assert tickets.tokenized(split) is rows
    with pytest.raises(ValueError, match="no split 'test'"):
        tickets.tokenized("test")


def test_the_corpus_that_it_is_made_of_stays_as_it_was():
    plain = data.load("tickets")
    before = plain.tokenized()["labels"][:8]
    other = texts.of(plain)
    assert other.tokenized()["input_ids"] == plain.tokenized()["input_ids"]
    assert plain.tokenized()["labels"][:8] == before == plain.train["label"][:8]
    assert other.tokenizer is plain.tokenizer and other.name == "tickets"
    assert other.max_length == plain.max_length


def test_a_micro_batch_is_padded_to_its_longest_and_the_padding_is_no_label(batch):
    assert {
        name: (tuple(t.shape), t.dtype) for name, t in batch.items()
    } == dict.fromkeys(
        ("input_ids", "attention_mask", "labels"), ((4, 64), torch.int64)
    )
    for row, length in enumerate(LENGTHS):
        assert batch["attention_mask"][row].sum() == length
        assert torch.equal(
            batch["labels"][row, :length], batch["input_ids"][row, :length]
        )
        assert (batch["labels"][row, length:] == -100).all()
    moved = batch.to("cpu")
    assert torch.equal(moved["labels"], batch["labels"])


def test_a_target_is_a_label_after_the_first_of_its_row(batch):
    assert texts.count_targets(batch) == sum(LENGTHS) - len(LENGTHS)
    assert training.count_targets(batch) == sum(LENGTHS)
    # A question of which nothing is learned: its first label is masked already.
    masked = copy.deepcopy(batch)
    masked["labels"][0, :10] = -100
    assert texts.count_targets(masked) == sum(LENGTHS) - len(LENGTHS) - 9
    masked["labels"][:] = -100
    assert texts.count_targets(masked) == 0


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        ({}, "no `labels`"),
        ({"labels": torch.ones(3)}, r"labels \(3,\)"),
        ({"labels": torch.ones(3, 4, 5)}, r"labels \(3, 4, 5\)"),
    ],
    ids=["none", "one axis", "three axes"],
)
def test_other_labels_are_refused_in_a_sentence(bad, found):
    with pytest.raises(ValueError, match=f"has {found}; a causal .*length\\)\\.$"):
        texts.count_targets(bad)


def test_the_count_is_what_the_models_mean_is_over(batch):
    model = models.language_model(seed=3).double()
    output = model(**batch)
    kept = batch["labels"][:, 1:] != -100
    total = torch.nn.functional.cross_entropy(
        output.logits[:, :-1][kept], batch["labels"][:, 1:][kept], reduction="sum"
    )
    assert total.item() / output.loss.item() == pytest.approx(
        texts.count_targets(batch), rel=1e-6
    )


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_the_shared_loop_is_exact_with_this_count_and_not_with_the_other(tickets, rows):
    model = models.language_model(seed=1).double()
    window = list(data.loader(tickets, rows, rows=8))
    wanted = equivalence.reference(model, window)
    training.accumulate(model, window, count_targets=texts.count_targets)
    exact = equivalence.compare(model, wanted)
    model.zero_grad()
    training.accumulate(model, window)
    other = equivalence.compare(model, wanted)
    # The model takes its loss in single precision.
    assert exact.relative_error < 1e-6 and other.relative_error > 1e-4


def test_a_masked_micro_batch_in_a_window_changes_nothing(tickets):
    model = models.language_model().double()
    window = list(data.loader(tickets, 2, rows=6))
    wanted = equivalence.reference(model, window)
    empty = copy.deepcopy(window[0])
    empty["labels"][:] = -100
    window.insert(1, empty)
    training.accumulate(model, window, count_targets=texts.count_targets)
    assert equivalence.compare(model, wanted).relative_error < 1e-6
