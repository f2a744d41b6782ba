"""Faults that people reported of the Trainer: there today, or gone, or never there."""

from __future__ import annotations

import math

import pytest
import torch
import transformers
from torch.nn.functional import cross_entropy

from helpers import equivalence
from helpers.equivalence import audit
from tests.test_reports_loops import far, flat, upstream, weights
from tests.trainers import (
    Counted,
    DividesByCount,
    MeanLoss,
    Stream,
    classified,
    distilbert,
    features,
    llama,
    tokens,
    trainer,
)

PLAIN = {"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0}
NOTHING = {"learning_rate": 0.0, "max_grad_norm": 0.0}


class Counts(transformers.TrainerCallback):
    """Counts events; stops after `most` passes."""

    def __init__(self, most=50):
        self.most, self.passes, self.updates, self.others = most, 0, 0, 0

    def on_step_end(self, args, state, control, **_):
        self.updates += 1

    def on_substep_end(self, args, state, control, **_):
        self.others += 1

    def on_epoch_end(self, args, state, control, **_):
        self.passes += 1
        control.should_training_stop |= self.passes >= self.most


def gradients(made):
    """Train with SGD and give the gradient of each update."""
    found = []
    made.optimizer = torch.optim.SGD(made.model.parameters(), lr=0.0)
    made.optimizer.register_step_pre_hook(
        lambda *_: found.append(flat(made.model).clone())
    )
    made.train()
    return found


def whole(rows, model=None):
    """Gradient and mean loss of rows of features in one backward."""
    model = model or Counted()
    x, labels = (torch.stack([row[name] for row in rows]) for name in ("x", "labels"))
    loss = cross_entropy(model(x)["logits"], labels)
    loss.backward()
    return flat(model), loss.item()


def near(found, wanted, tolerance=1e-5):
    return bool((found - wanted).norm() < tolerance * wanted.norm())


def logged(made):
    made.train()
    return [entry["loss"] for entry in made.state.log_history if "loss" in entry]


def test_a01_adam_hides_in_the_weights_what_sgd_shows():
    """https://github.com/huggingface/transformers/issues/47688"""

    def trained(k, make, repair):
        model = distilbert(**PLAIN)
        made = {"compute_loss_func": repair, "optimizers": (make(model), None)}
        options = {"in_order": True, "num_train_epochs": 2, "max_grad_norm": 0.0}
        trainer(model, classified(40), 8 // k, k, made=made, **options).train()
        return model

    def error(kind, rate, repair=None):
        ends = (
            trained(k, lambda model: kind(model.parameters(), rate), repair)
            for k in (1, 4)
        )
        right = weights(next(ends))
        return far(next(ends), right, weights(distilbert(**PLAIN)))

    repair, optim = equivalence.summed_cross_entropy, torch.optim
    assert error(optim.SGD, 0.05, repair) < 1e-4
    shown, hidden = error(optim.SGD, 0.05), error(optim.AdamW, 1e-3)
    upstream(shown > 1 and hidden < 0.2, shown < 1e-4, "heads that drop the count")


def test_a05_an_override_may_declare_that_its_loss_is_a_mean():
    """https://github.com/huggingface/transformers/pull/43651"""
    ragged = trainer(Counted(), features(30), kind=MeanLoss)
    ragged.compute_loss = equivalence.share_of_window(ragged)
    assert audit(ragged).exact
    made = trainer(Counted(), features(32), kind=MeanLoss)
    if not hasattr(made, "loss_is_scaled_for_ga"):
        pytest.skip(f"not yet in transformers {transformers.__version__}")
    made.loss_is_scaled_for_ga = False
    assert audit(made).exact


@pytest.mark.parametrize("head", ["DistilBert", "Llama"])
def test_a07_the_logged_loss_is_that_of_the_window(head):
    """https://github.com/huggingface/transformers/issues/37766"""
    model = distilbert(**PLAIN) if head == "DistilBert" else llama()
    rows = classified(16) if head == "DistilBert" else tokens([2, 5, 9, 3] * 4)
    batch = {name: torch.stack([r[name] for r in rows[:8]]) for name in rows[0]}
    true = model(**batch).loss.item()
    options = {"in_order": True, "logging_steps": 1, **NOTHING, "num_train_epochs": 1}
    found = logged(trainer(model, rows, 2, 4, **options))
    if head == "Llama":
        assert found[0] == pytest.approx(true, abs=1e-4) and len(found) == 2
        return
    repair = {"compute_loss_func": equivalence.summed_cross_entropy}
    repaired = trainer(model, rows, 2, 4, made=repair, **options)
    assert logged(repaired)[0] == pytest.approx(true, abs=1e-4)
    times = found[0] / true
    upstream(abs(times - 4) < 1e-3, abs(times - 1) < 1e-3, "a logged loss times k")


@pytest.mark.parametrize("family", ["ConvNext", "ConvNextV2"])
def test_a09_convnext_says_that_it_takes_no_count(family):
    """https://github.com/huggingface/transformers/pull/40746"""
    transformers.set_seed(0)
    config = getattr(transformers, f"{family}Config")(
        hidden_sizes=[4, 8], depths=[1, 1], num_stages=2, num_labels=3
    )
    model = getattr(transformers, f"{family}ForImageClassification")(config)
    images = torch.randn(16, 3, 16, 16)
    rows = [
        {"pixel_values": v, "labels": torch.tensor(i % 3)} for i, v in enumerate(images)
    ]
    assert model.accepts_loss_kwargs is False
    assert audit(trainer(model, rows, 2, 4)).exact


def test_a19_a_loss_that_is_not_a_number_is_replaced_in_the_log():
    """https://github.com/huggingface/trl/issues/6702"""
    rows = features(16)
    parts = [whole(rows[i : i + 4])[1] / 4 for i in (0, 4, 12)]
    for row in rows[8:12]:
        row["x"] = row["x"] * math.nan
    options = {"kind": DividesByCount, "in_order": True, "logging_steps": 1}
    options |= {"max_steps": 1, **NOTHING}
    seen = trainer(Counted(), rows, logging_nan_inf_filter=False, **options)
    assert math.isnan(logged(seen)[0])
    found = logged(trainer(Counted(), rows, **options))[0]
    filled = 2 * (parts[0] + parts[1]) + parts[2]  # the sum so far, once more
    fault = abs(found - filled) < 1e-4
    upstream(fault, math.isnan(found), "the filter adds the sum of the window")


def test_b01_windows_of_every_length_are_divided_by_their_own():
    """https://github.com/huggingface/transformers/issues/38837"""
    found = audit(trainer(llama(), tokens([7] * 20), 2, 4))
    assert found.ratios == pytest.approx([1, 1, 1], abs=1e-4)
    ratios = audit(trainer(distilbert(), classified(20), 2, 4)).ratios
    fault, right = (
        ratios == pytest.approx(r, abs=1e-3) for r in ([4, 4, 2], [1, 1, 1])
    )
    upstream(fault, right, "heads that drop the count")


GRID = [(20, 2, 4, 3), (9, 2, 2, 3), (10, 1, 4, 1), (7, 3, 5, 2), (16, 4, 4, 2)]


@pytest.mark.parametrize(("n", "rows", "k", "epochs"), GRID)
def test_b03_b08_b10_every_row_is_seen_and_no_update_is_missing(n, rows, k, epochs):
    """https://github.com/huggingface/transformers/issues/14309
    https://github.com/huggingface/transformers/issues/33455
    https://github.com/huggingface/transformers/issues/37777
    """
    model, seen, counts = Counted(), [], Counts()
    model.register_forward_pre_hook(
        lambda _, __, named: seen.append(len(named["x"])), with_kwargs=True
    )
    made = trainer(model, features(n), rows, k, num_train_epochs=epochs)
    made.add_callback(counts)
    made.train()
    updates = math.ceil(math.ceil(n / rows) / k) * epochs
    assert made.state.global_step == counts.updates == updates
    assert sum(seen) == n * epochs
    assert counts.updates + counts.others == math.ceil(n / rows) * epochs


@pytest.mark.parametrize("stream", [False, True])
def test_b05_the_last_window_of_a_stream_goes_on_into_the_next_pass(stream):
    """https://github.com/huggingface/transformers/issues/22082"""
    rows = features(20)
    data = Stream(rows) if stream else rows
    options = {"kind": DividesByCount, "max_steps": 4, **NOTHING}
    found = gradients(trainer(Counted(), data, 2, 4, in_order=not stream, **options))
    first, second, rest = (whole(rows[i:j])[0] for i, j in ((0, 8), (8, 16), (16, 20)))
    assert near(found[0], first) and near(found[1], second)
    right = near(found[2], rest) and near(found[3], first)
    if stream:
        leaks = near(found[2], rest + first) and near(found[3], second)
        upstream(leaks, right, "the last window of a stream")
    else:
        assert right


def test_n01_a_stream_shorter_than_a_window_never_makes_an_update():
    counts = Counts(most=20)
    made = trainer(Counted(), Stream(features(6)), 2, 4, max_steps=2)
    made.add_callback(counts)
    made.train()
    step = made.state.global_step
    upstream(step == 0 and counts.passes == 20, step == 2, "streams of few rows")


def test_n03_the_routers_loss_is_added_once_a_micro_batch():
    def mixtral(coefficient):
        experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
        experts |= {"output_router_logits": True, "router_aux_loss_coef": coefficient}
        return llama(family="Mixtral", **experts)

    rows = tokens([5] * 8)
    batch = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
    options = {"in_order": True, "logging_steps": 1, "max_steps": 1, **NOTHING}
    for coefficient in (0.02, 1.0):
        out = mixtral(coefficient)(**batch)
        one, four = (
            logged(trainer(mixtral(coefficient), rows, 8 // k, k, **options))[0]
            for k in (1, 4)
        )
        assert one == pytest.approx(out.loss.item(), abs=1e-3)
        extra = 3 * coefficient * out.aux_loss.item()
        fault = four - one == pytest.approx(extra, rel=0.05)
        upstream(fault, abs(four - one) < 0.2 * extra, "the router's loss times k")
