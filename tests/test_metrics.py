"""Accuracy and F1 against scikit-learn, at the edges, and with nothing to write to."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

from helpers import metrics

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_it_equals_accuracy_and_binary_f1_of_scikit_learn(seed, share):
    random = np.random.default_rng(seed)
    truth = (random.random(101) < share).astype(int)
    chosen = np.where(random.random(101) < 0.2, 1 - truth, truth)
    found = metrics.accuracy_f1().compute(predictions=chosen, references=truth)
    assert found == {
        "accuracy": pytest.approx(accuracy_score(truth, chosen), abs=1e-15),
        "f1": pytest.approx(f1_score(truth, chosen), abs=1e-15),
    }
    assert all(type(value) is float for value in found.values())


@pytest.mark.parametrize("kind", [list, np.asarray, torch.tensor])
def test_batches_of_lists_arrays_or_tensors_add_up(kind):
    truth, chosen = [0, 1, 1, 0, 1, 0, 1], [0, 1, 0, 0, 1, 1, 1]
    metric = metrics.accuracy_f1()
    for part in (slice(0, 3), slice(3, 6), slice(6, 7)):
        metric.add_batch(predictions=kind(chosen[part]), references=kind(truth[part]))
    assert metric.compute() == {"accuracy": pytest.approx(5 / 7), "f1": 0.75}


@pytest.mark.parametrize(
    ("chosen", "truth", "accuracy", "f1"),
    [
        ([0, 0, 0], [0, 0, 0], 1.0, 0.0),
        ([1, 1, 1], [1, 1, 1], 1.0, 1.0),
        ([0, 0, 0], [1, 1, 1], 0.0, 0.0),
        ([1, 1, 1], [0, 0, 0], 0.0, 0.0),
        ([0, 0, 0, 0], [0, 0, 0, 1], 0.75, 0.0),
        ([1], [1], 1.0, 1.0),
    ],
)
def test_a_single_class_gives_numbers_and_no_warning(chosen, truth, accuracy, f1):
    metric = metrics.accuracy_f1()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = metric.compute(predictions=chosen, references=truth)
    assert found == {"accuracy": accuracy, "f1": f1}


@pytest.mark.parametrize("side", ["predictions", "references"])
@pytest.mark.parametrize("strange", [2, -100])
def test_a_class_other_than_0_and_1_is_one_sentence(side, strange):
    rows = {"predictions": [0, 1], "references": [0, 1]} | {side: [0, strange]}
    with pytest.raises(ValueError, match=f"^{side} hold {strange}, ") as refused:
        metrics.accuracy_f1().compute(**rows)
    assert "argmax" in str(refused.value) and "\n" not in str(refused.value)


def test_two_metrics_at_once_keep_apart():
    first, second = metrics.accuracy_f1(), metrics.accuracy_f1()
    first.add_batch(predictions=[1, 1], references=[1, 1])
    second.add_batch(predictions=[1, 1], references=[0, 0])
    assert first.compute() == {"accuracy": 1.0, "f1": 1.0}
    assert second.compute() == {"accuracy": 0.0, "f1": 0.0}


def test_its_folder_goes_when_the_metric_goes(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    metric = metrics.accuracy_f1()
    metric.compute(predictions=[0, 1], references=[0, 1])
    assert list(tmp_path.iterdir()), "evaluate makes no folder any more: drop ours"
    del metric
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_it_needs_neither_a_cache_nor_a_network(tmp_path):
    file = tmp_path / "file"
    file.touch()
    nowhere = str(file / "beneath")  # not even root can make a folder beneath a file
    code = (
        "import os, sys\n"
        "sys.addaudithook(lambda name, _: name in ('socket.connect', "
        "'socket.getaddrinfo') and os._exit(9))\n"
        "from helpers import metrics\n"
        "metric = metrics.accuracy_f1()\n"
        "print(metric.compute(predictions=[0, 1, 1], references=[0, 1, 0]))\n"
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HF_", "XDG_"))
    }
    homes = ("HOME", "USERPROFILE", "HF_HOME", "XDG_CACHE_HOME")
    environment |= dict.fromkeys(homes, nowhere) | {"OMP_NUM_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, "-B", "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("{'accuracy': 0.666")
    assert [path.name for path in tmp_path.rglob("*")] == ["file"]
