"""Faults that people reported of names, resuming, layers, memory and number formats."""

from __future__ import annotations

import ast
import inspect
import math
from pathlib import Path

import pytest
import torch
import transformers
from torch import nn

from helpers import equivalence, training
from tests import toys
from tests.test_reports_loops import (
    EXACT,
    accumulated,
    compared,
    flat,
    held,
    upstream,
    weights,
)
from tests.test_reports_trainer import PLAIN, Counts, near
from tests.trainers import LENGTH, Counted, classified, distilbert, features, trainer

PLACE = Path(__file__).parents[1]
FIVE = int(transformers.__version__.split(".")[0]) >= 5


def test_b11_steps_are_updates():
    """https://github.com/huggingface/transformers/pull/6930"""
    counts = Counts()
    options = {"learning_rate": 1.0, "warmup_steps": 4, "logging_steps": 2}
    options |= {"lr_scheduler_type": "constant_with_warmup", "num_train_epochs": 1}
    made = trainer(Counted(), features(32), 1, 4, **options)
    made.add_callback(counts)
    made.train()
    assert (counts.updates, counts.others) == (8, 24)
    entries = [entry for entry in made.state.log_history if "loss" in entry]
    assert [entry["step"] for entry in entries] == [2, 4, 6, 8]
    assert [entry["learning_rate"] == 1 for entry in entries[0::2]] == [False, True]


def test_n06_without_a_mask_padding_by_micro_batches_changes_the_gradient():
    model, rows = distilbert(**PLAIN).double(), classified(8)
    lengths = (4, 5, 6, 7, 9, 11, 14, 16)

    def pad(places, masked):
        longest = max(lengths[i] for i in places)
        mask = torch.stack([torch.arange(LENGTH) < lengths[i] for i in places]).long()
        ids = torch.stack([rows[i]["input_ids"] for i in places]) * mask
        batch = {"input_ids": ids[:, :longest], "attention_mask": mask[:, :longest]}
        batch["labels"] = torch.stack([rows[i]["labels"] for i in places])
        return batch if masked else batch | {"attention_mask": None}

    def gradient(size, masked):
        model.zero_grad()
        for i in range(0, 8, size):
            loss = model(**pad(range(i, i + size), masked)).loss
            (loss * size / 8).backward()
        return flat(model)

    assert near(gradient(2, True), gradient(8, True), 1e-10)
    assert not near(gradient(2, False), gradient(8, False), 1e-4)


def test_b12_b14_a_run_goes_on_where_it_stopped(tmp_path):
    """https://github.com/huggingface/transformers/issues/5605
    https://github.com/kohya-ss/sd-scripts/pull/2425
    """

    def run(k, point=None, saves=False):
        model, counts = distilbert(), Counts()
        made = trainer(model, classified(20), 2, k, num_train_epochs=2)
        made.add_callback(counts)
        made.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if saves:
            made.args.output_dir, made.args.save_steps = str(tmp_path), 2
            made.args.save_strategy = transformers.IntervalStrategy.STEPS
        made.train(resume_from_checkpoint=point and str(tmp_path / point))
        return counts.updates, made.state.global_step, weights(model)

    *steps, whole = run(4, saves=True)  # windows of 4, 4 and 2 micro-batches
    assert steps == [6, 6]
    for at in (2, 4):
        *steps, again = run(4, f"checkpoint-{at}")
        assert steps == [6 - at, 6] and torch.equal(again, whole)
    try:
        steps = run(2, "checkpoint-2")[1]  # half the batch
    except ValueError:
        steps = None
    upstream(steps == 10, steps is None, "resuming with another effective batch")


class Full(Counted):
    """Has no memory for more than four rows."""

    def forward(self, x, labels=None, **dropped):
        if len(x) > 4:
            raise RuntimeError("CUDA out of memory.")
        return super().forward(x, labels)


def test_b16_auto_find_batch_size_shrinks_the_effective_batch():
    """https://github.com/huggingface/transformers/pull/33281"""
    options = {"auto_find_batch_size": True, "num_train_epochs": 1}
    made = trainer(Full(), features(40), 5, 2, **options)
    made.train()
    size, k = made._train_batch_size, made.args.gradient_accumulation_steps
    assert size <= 4 and made.state.global_step == math.ceil(math.ceil(40 / size) / k)
    unsaid = made.args.per_device_train_batch_size == 5
    upstream(k == 2 and unsaid, size * k >= 10, "auto_find_batch_size")


def as_one(net, batches, seed=0):
    """Gradients of the rows as one batch and accumulated, with the same seed."""
    found = []
    for parts in ([equivalence.join(batches)], batches):
        torch.manual_seed(seed)
        found.append(flat(accumulated(net, parts)).clone())
    return ((found[1] - found[0]).norm() / found[0].norm()).item()


def test_e01_batch_normalisation_sees_micro_batches():
    """https://github.com/pytorch/pytorch/issues/46516"""
    net, batches = toys.model(), toys.cut(toys.rows(16), 4)
    for exact in (nn.LayerNorm(7), nn.GroupNorm(1, 7), nn.BatchNorm1d(7).eval()):
        net.drop = exact.double()
        assert as_one(net, batches) < EXACT
    net.drop = nn.BatchNorm1d(7).double()
    assert as_one(net, batches) > 0.1
    assert net.drop.num_batches_tracked == 1 + 4


def test_e03_dropout_is_exact_in_no_network_that_matters():
    """https://github.com/microsoft/Swin-Transformer/issues/107"""
    net, batches = toys.model(dropout=0.3), toys.cut(toys.rows(16), 4)
    assert as_one(net, batches) < EXACT  # one layer draws the same numbers: no proof
    net.hidden = nn.Sequential(net.hidden, nn.Dropout(0.3))
    assert as_one(net, batches) > 0.1
    equivalence.without_dropout(net)
    assert compared(accumulated(net, batches), batches).relative_error < EXACT


def test_e04_adding_up_losses_keeps_nodes_and_without_backward_activations():
    """https://github.com/pytorch/pytorch/issues/17568"""

    def nodes(loss):
        found, new = set(), [loss.grad_fn]
        while new:
            node = new.pop()
            if node is not None and node not in found:
                found.add(node)
                new += [following for following, _ in node.next_functions]
        return len(found)

    def left(k, backward):
        net, total = toys.model(), 0.0
        with held() as size:
            for batch in toys.cut(toys.rows(4 * k), 4):
                loss = net(**batch).loss
                if backward:
                    loss.backward()
                total = total + loss
            return size[0], nodes(total)

    assert left(8, backward=True)[0] == 0
    assert left(8, backward=True)[1] > left(1, backward=True)[1] + 7
    assert left(8, backward=False)[0] == 8 * left(1, backward=False)[0] > 0
    net, batches = toys.model(), toys.cut(toys.rows(8), 4)
    with held() as size:
        training.evaluate(net, batches)
        assert size[1] == 0
        assert type(training.accumulate(net, batches)[0]) is float and size[0] == 0


def test_e06_gradients_summed_in_bfloat16_lose_more_the_longer_the_window():
    """https://github.com/NVIDIA/Megatron-LM/issues/372"""
    rows = toys.rows(1024)
    true = flat(accumulated(toys.model(), [rows]))

    def error(k, dtype, autocast=None):
        net = toys.model().to(dtype)
        batches = toys.cut(rows | {"x": rows["x"].to(dtype)}, 1024 // k)
        if autocast:
            training.accumulate(net, batches, autocast=autocast)
        else:
            accumulated(net, batches)
        return ((flat(net).double() - true).norm() / true.norm()).item()

    half = torch.bfloat16
    assert error(512, half) > 4 * error(1, half)
    assert error(512, torch.float32, half) < 2 * error(1, torch.float32, half)
    assert error(512, torch.float32) < 1e-5


def test_e08_eval_accumulation_steps_does_nothing_in_training():
    """https://github.com/huggingface/transformers/issues/7232"""
    found = []
    for steps in (None, 1, 3):
        model, rows = distilbert(), classified(16)
        options = {"eval_strategy": "epoch", "eval_accumulation_steps": steps}
        options |= {"num_train_epochs": 1, "made": {"eval_dataset": rows}}
        trainer(model, rows, 2, 4, **options).train()
        found.append(weights(model))
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


GONE = ["no_cuda", "group_by_length", "overwrite_output_dir", "save_safetensors"]
GONE += ["logging_dir", "warmup_ratio", "per_gpu_train_batch_size"]


def test_e10_arguments_that_are_gone_and_those_that_the_course_uses():
    """https://github.com/huggingface/transformers/issues/7974"""
    known = inspect.signature(transformers.TrainingArguments).parameters
    used = set()
    for path in [*PLACE.glob("lessons/*.py"), *PLACE.glob("helpers/**/*.py")]:
        every = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        # What a lesson tries is there to fail.
        tried = {c for n in every if isinstance(n, ast.Try) for c in ast.walk(n)}
        for n in every:
            called = ast.unparse(n.func) if isinstance(n, ast.Call) else ""
            if n not in tried and called.endswith("TrainingArguments"):
                used |= {word.arg for word in n.keywords if word.arg}
    assert "eval_strategy" in used and used <= set(known)
    assert [name in known for name in GONE] == [not FIVE] * len(GONE)
    back = "evaluation_strategy" in known
    upstream(not back, back, "the name evaluation_strategy")


class Old(transformers.Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        raise AssertionError("it was called without its count")


def test_e11_a_trainer_takes_a_processing_class_and_its_loss_a_count():
    """https://github.com/huggingface/course/pull/875"""
    trainer(distilbert(), classified(8), made={"processing_class": None})
    if FIVE:
        with pytest.raises(TypeError, match="'tokenizer'"):
            trainer(distilbert(), classified(8), made={"tokenizer": None})
    with pytest.raises(TypeError, match="num_items_in_batch"):
        trainer(distilbert(), classified(8), 2, 4, kind=Old, max_steps=1).train()
