"""The presets: published sizes, batches with padding, and what a forecast costs."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from helpers.memory.presets import OPTIMIZERS, PRECISIONS, PRESETS

# Weights of the published models without a classifier: the cards round them to 66M,
# 110M, 124M, 1.24B and 8.03B.
PUBLISHED = {
    "distilbert-base": 66_362_880,
    "bert-base": 109_482_240,
    "gpt2": 124_439_808,
    "llama-1b": 1_235_814_400,
    "llama-8b": 8_030_261_248,
}

# In a process of its own: its CPU time and highest memory are the forecast's alone.
COST = """
import sys, time
from benchmarks.large import held
import torch, transformers
from helpers import memory
from helpers.memory.presets import PRESETS
for name in sys.argv[1:]:
    preset = PRESETS[name]
    start = time.process_time()
    found = memory.forecast(preset.make_model, preset.make_batch(128))
    for rows in (1, 7, 64):
        found.peak(rows, 2)
    print(found.weights, time.process_time() - start)
print(int(held() * 2**20))
"""


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_the_published_size(name):
    with torch.device("meta"):
        model = PRESETS[name].make_model()
    body = model.base_model if "bert" in name else model
    assert sum(p.numel() for p in body.parameters()) == PUBLISHED[name]
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert model.supports_gradient_checkpointing


def test_every_preset_names_its_source():
    assert {*PRESETS} == {*PUBLISHED}
    for name, preset in PRESETS.items():
        assert preset.name == name
        assert preset.source.startswith("https://huggingface.co/")


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("rows", [1, 3])
def test_a_batch_has_the_rows_and_tokens_asked_for_and_padding(name, rows):
    batch = PRESETS[name].make_batch(16)(rows)
    assert batch["input_ids"].shape == batch["attention_mask"].shape == (rows, 16)
    assert not batch["attention_mask"].all(1).any()  # padding in every row
    if PRESETS[name].task == "causal-lm":
        padded = batch["attention_mask"] == 0
        assert torch.equal(batch["labels"] == -100, padded)
        assert torch.equal(batch["labels"][~padded], batch["input_ids"][~padded])
    else:
        assert batch["labels"].tolist() == [row % 2 for row in range(rows)]


def test_building_a_preset_leaves_the_random_numbers_of_its_batches_alone():
    before = torch.get_rng_state()
    first, again = (PRESETS["gpt2"].make_batch(8)(2) for _ in range(2))
    assert torch.equal(first["input_ids"], again["input_ids"])
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("name", "length"),
    [("gpt2", 1), ("gpt2", 1025), ("bert-base", 513), ("gpt2", 2.5), ("gpt2", True)],
)
def test_a_length_that_the_model_lacks_is_refused(name, length):
    with pytest.raises(ValueError, match=rf"is {length}; {name} takes a whole number"):
        PRESETS[name].make_batch(length)


def test_optimizers_by_name_are_what_they_say():
    weights = [torch.nn.Parameter(torch.ones(2))]
    made = {name: make(weights) for name, make in OPTIMIZERS.items()}
    kinds = [type(optimizer).__name__ for optimizer in made.values()]
    assert kinds == ["AdamW", "SGD", "SGD", "Adafactor"]
    assert made["sgd"].defaults["momentum"] == 0
    assert made["sgd-momentum"].defaults["momentum"] > 0
    assert PRECISIONS["float32"] is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no getrusage")
def test_a_forecast_takes_seconds_and_no_memory():
    command = [sys.executable, "-c", COST, "distilbert-base", "llama-1b"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    small, large, most = done.stdout.splitlines()
    weights, seconds = small.split()
    assert int(weights) == 66_955_010
    assert float(seconds) <= 15  # of processor time
    assert int(large.split()[0]) == PUBLISHED["llama-1b"]
    assert int(most) <= 1.5 * 2**30  # its weights alone would take 4.6 GiB
    assert not done.stderr, done.stderr  # transformers gives no advice
