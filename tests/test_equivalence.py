import math

import pytest
import torch
from torch import nn

from helpers import equivalence
from tests import toys


def test_the_reference_is_the_gradient_of_the_mean_loss_by_hand():
    net, batch = nn.Linear(3, 2).double(), toys.rows(8, features=3, classes=2)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x, labels):
            loss = nn.functional.cross_entropy(self.net(x), labels)
            return type("Output", (), {"loss": loss})

    found = equivalence.reference(Model(), batch)
    # softmax regression: d loss / d W = (p - y)^T x / rows
    p = torch.softmax(batch["x"] @ net.weight.T + net.bias, 1)
    y = nn.functional.one_hot(batch["labels"], 2)
    by_hand = (p - y).T @ batch["x"] / 8
    assert torch.allclose(found.gradient["net.weight"], by_hand, atol=1e-14)
    assert found.targets == 8
    assert found.loss == pytest.approx(-(p.log() * y).sum().item() / 8)


def test_the_reference_joins_micro_batches_and_leaves_the_model_alone():
    net = toys.model(dropout=0.5).train()
    before = [p.clone() for p in net.parameters()]
    whole, parts = toys.rows(10), toys.cut(toys.rows(10), 4)
    one, many = equivalence.reference(net, whole), equivalence.reference(net, parts)
    assert equivalence.compare(one.gradient, many).relative_error == 0
    assert net.training and all(p.grad is None for p in net.parameters())
    assert all(map(torch.equal, before, net.parameters()))


def test_dropout_is_off_and_batch_normalisation_keeps_its_mode():
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 2))
    equivalence.without_dropout(net)
    assert net[0].training and not net[1].training
    net[0].eval()
    equivalence.without_dropout(net)
    assert not net[0].training


def test_join_pads_labels_with_minus_100_and_the_rest_with_0():
    a = {"input_ids": torch.ones(2, 3, dtype=int), "labels": torch.ones(2, 3).long()}
    b = {"input_ids": torch.ones(1, 5, dtype=int), "labels": torch.ones(1, 5).long()}
    joined = equivalence.join([a, b])
    assert joined["input_ids"].tolist() == [[1, 1, 1, 0, 0]] * 2 + [[1] * 5]
    assert joined["labels"].tolist() == [[1, 1, 1, -100, -100]] * 2 + [[1] * 5]


@pytest.mark.parametrize("shifted", [False, True])
def test_the_targets_are_those_that_the_loss_itself_looks_at(shifted):
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(3, 4)

        def forward(self, x, labels):
            logits = self.head(x)
            if shifted:
                logits, labels = logits[:, :-1], labels[:, 1:]
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            return type("Output", (), {"loss": loss})

    batch = {"x": torch.rand(2, 5, 3), "labels": torch.arange(10).reshape(2, 5) % 4}
    batch["labels"][0, 3:] = batch["labels"][1, 0] = -100
    assert equivalence.reference(Tagger(), batch).targets == (6 if shifted else 7)
    batch["labels"][:, 1:] = -100  # nothing is left to ask a shifted loss with
    assert equivalence.reference(Tagger(), batch).targets == 1


def test_padding_changes_nothing_for_the_course_model():
    from helpers import data, models

    tickets = data.load("tickets")
    parts = list(data.loader(tickets, 4, rows=16))
    assert len({part["input_ids"].shape[1] for part in parts}) > 1
    net = models.classifier().double()
    whole = equivalence.reference(net, parts)
    one = next(iter(data.loader(tickets, 16, rows=16)))
    assert equivalence.compare(
        equivalence.reference(net, one).gradient, whole
    ).relative_error == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("factor", [1.0, 4.0, 0.25, -1.0])
def test_a_scaled_gradient_shows_as_ratio_without_residual(factor):
    ref = equivalence.reference(toys.model(), toys.rows(8))
    found = equivalence.compare(
        {name: factor * g for name, g in ref.gradient.items()}, ref
    )
    assert found.ratio == pytest.approx(factor)
    assert found.residual < 1e-15
    assert found.relative_error == pytest.approx(abs(factor - 1))
    assert found.cosine == pytest.approx(math.copysign(1, factor))
    assert found.exact is (factor == 1)


def test_another_direction_shows_as_residual():
    net = toys.model()
    ref = equivalence.reference(net, toys.rows(8))
    other = equivalence.reference(net, toys.rows(8, seed=5)).gradient
    found = equivalence.compare(other, ref)
    assert found.residual > 0.1 and found.verdict == "not the reference"
    assert math.hypot(found.ratio - 1, found.residual) == pytest.approx(
        found.relative_error
    )


@pytest.mark.parametrize(
    ("factor", "words"),
    [(1, "up to rounding"), (4, "4 times as long"), (float("nan"), "not a number")],
)
def test_the_verdict_says_what_the_numbers_mean(factor, words):
    ref = equivalence.reference(toys.model(), toys.rows(8))
    scaled = {name: factor * g for name, g in ref.gradient.items()}
    assert words in str(equivalence.compare(scaled, ref))


def test_a_model_is_read_from_its_grad_and_none_counts_as_zero():
    net = toys.model()
    ref = equivalence.reference(net, toys.rows(8))
    assert equivalence.compare(net, ref).relative_error == 1.0
    net(**toys.rows(8)).loss.backward()
    assert equivalence.compare(net, ref).relative_error < 1e-15
    assert "loss" in repr(ref) and "8 targets" in repr(ref)


def test_bad_input_is_told_in_one_sentence():
    net, batch = toys.model(), toys.rows(4)
    ref = equivalence.reference(net, batch)
    with pytest.raises(ValueError, match="at least one"):
        equivalence.reference(net, [])
    with pytest.raises(ValueError, match="different names"):
        equivalence.join([batch, {"x": batch["x"]}])
    with pytest.raises(ValueError, match="-100 in every row"):
        equivalence.reference(net, batch | {"labels": torch.full((4,), -100)})
    with pytest.raises(ValueError, match="same weights"):
        equivalence.compare({"other": torch.ones(1)}, ref)
    with pytest.raises(ValueError, match="zero"):
        zero = {name: 0 * g for name, g in ref.gradient.items()}
        equivalence.compare(net, equivalence.Reference(zero, 0.0, 4))

    class Lossless(toys.RowClassifier):
        def forward(self, x, labels=None):
            return super().forward(x)

    with pytest.raises(ValueError, match="no loss"):
        equivalence.reference(Lossless().double(), batch)
