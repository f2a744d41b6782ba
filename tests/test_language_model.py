"""The tiny language model: its size, its seed, what it sees, and that it learns."""

from __future__ import annotations

import math

import pytest
import torch

from helpers import data, models, texts, training


def weights(model):
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


@pytest.fixture(scope="module")
def tickets():
    return texts.of(data.load("tickets"))


@pytest.fixture(scope="module")
def batch(tickets):
    return next(iter(data.loader(tickets, 4, rows=4)))


def test_it_has_about_100000_weights_in_float32_on_the_cpu():
    model = models.language_model()
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(
        105_000, rel=0.02
    )
    assert {(p.dtype, p.device.type) for p in model.parameters()} == {
        (torch.float32, "cpu")
    }
    tokenizer = data.tickets_tokenizer()
    assert model.config.vocab_size == len(tokenizer)
    assert model.config.pad_token_id == tokenizer.pad_token_id


def test_the_same_seed_gives_the_same_weights_and_leaves_the_random_state_alone():
    torch.manual_seed(1)
    first, after = weights(models.language_model(seed=3)), torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), after)
    assert torch.equal(weights(models.language_model(seed=3)), first)
    assert not torch.equal(weights(models.language_model(seed=4)), first)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_dropout_is_off_unless_asked_for(dropout, batch):
    model = models.language_model(dropout=dropout).train()
    first, second = model(**batch).loss, model(**batch).loss
    assert (first == second).item() == (dropout == 0)


@pytest.mark.parametrize("dropout", [1.0, -0.1, math.nan])
def test_a_dropout_out_of_range_is_refused(dropout):
    with pytest.raises(ValueError, match=f"dropout is {dropout}, and has to be from 0"):
        models.language_model(dropout=dropout)


def test_untrained_each_token_is_about_equally_likely(batch):
    model = models.language_model()
    assert model(**batch).loss.item() == pytest.approx(
        math.log(model.config.vocab_size), abs=0.1
    )


def test_what_comes_later_and_padding_change_nothing(batch):
    model = models.language_model()
    short = {n: batch[n][:, :20] for n in ("input_ids", "attention_mask")}
    with torch.no_grad():
        before = model(**short).logits
        later = model(**{n: batch[n] for n in short}).logits[:, :20]
    assert torch.allclose(before, later, rtol=0, atol=1e-5)


def test_it_takes_texts_of_128_tokens():
    ids = torch.full((1, models.POSITIONS), 7)
    output = models.language_model()(input_ids=ids, labels=ids)
    assert output.logits.shape[1] == models.POSITIONS
    assert math.isfinite(output.loss.item())


def test_an_epoch_learns(tickets):
    model = models.language_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    options = {"count_targets": texts.count_targets, "progress": False}
    history = training.train(
        model,
        data.loader(tickets, 8, rows=512),
        optimizer=optimizer,
        accumulation_steps=4,
        validation=data.loader(tickets, 64, split="validation", rows=64),
        **options,
    )
    assert history.updates[0].loss == pytest.approx(math.log(500), abs=0.2)
    assert history.evaluations[-1]["loss"] < 4.6, history
