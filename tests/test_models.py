"""The tiny classifier: its size, its seed, what it refuses, and that it learns."""

from __future__ import annotations

import copy
import logging
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import DistilBertForMaskedLM, get_linear_schedule_with_warmup
from transformers.utils import logging as transformers_logging

from helpers import data, hub, models, training

ROOT = Path(__file__).resolve().parents[1]


def weights(model):
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


def batch(rows=4, length=12, classes=2):
    random = torch.Generator().manual_seed(0)
    return {
        "input_ids": torch.randint(5, 400, (rows, length), generator=random),
        "attention_mask": torch.ones(rows, length, dtype=torch.long),
        "labels": torch.arange(rows) % classes,
    }


def test_the_tiny_one_has_about_78000_weights_in_float32_on_the_cpu():
    model = models.classifier()
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(78_000, abs=500)
    assert {(p.dtype, p.device.type) for p in model.parameters()} == {
        (torch.float32, "cpu")
    }
    assert model.config.vocab_size == len(data.tickets_tokenizer())
    assert model.config.pad_token_id == data.tickets_tokenizer().pad_token_id


def test_the_project_holds_no_weight_file():
    folders = [ROOT / name for name in ("helpers", "data", "lessons", "notebooks")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    kinds = {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".onnx", ".h5", ".npz"}
    assert len(files) > 20
    assert not [path for path in files if path.suffix in kinds]


def test_the_same_seed_gives_the_same_weights():
    first, second, other = (weights(models.classifier(seed=s)) for s in (3, 3, 4))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_the_weights_do_not_depend_on_the_random_state_and_leave_it_alone():
    torch.manual_seed(1)
    first, after = weights(models.classifier()), torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), after)
    assert torch.equal(weights(models.classifier()), first)


def test_an_error_on_the_way_puts_the_random_state_back(monkeypatch):
    monkeypatch.setattr(hub, "reachable", lambda: False)
    before = torch.get_rng_state()
    with pytest.raises(hub.HubUnavailable):
        models.classifier("distilbert", seed=9)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_dropout_is_off_unless_asked_for(dropout):
    model = models.classifier(dropout=dropout).train()
    rates = {m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)}
    assert rates == {dropout} and model.config.attention_dropout == dropout
    with torch.no_grad():
        first, second = (model(**batch()).logits for _ in range(2))
    assert torch.equal(first, second) == (dropout == 0)


def test_it_takes_more_classes_and_texts_of_up_to_128_tokens():
    model = models.classifier(num_labels=5)
    output = model(**batch(rows=5, length=models.POSITIONS, classes=5))
    assert output.logits.shape == (5, 5) and math.isfinite(output.loss.item())


def test_padding_does_not_change_the_answer():
    model, short = models.classifier(), batch()
    padded = {
        name: torch.nn.functional.pad(short[name], (0, 7))
        for name in ("input_ids", "attention_mask")
    }
    with torch.no_grad():
        assert torch.allclose(
            model(**short).logits, model(**padded).logits, rtol=0, atol=1e-6
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "bert"}, 'There is no model \'bert\': take "tiny" or "distilbert"'),
        ({"name": ""}, "There is no model ''"),
        ({"dropout": 1.0}, "dropout is 1.0, and has to be from 0 to below 1"),
        ({"dropout": -0.1}, "dropout is -0.1"),
        ({"dropout": math.nan}, "dropout is nan"),
        ({"num_labels": 1}, "num_labels is 1, and has to be a whole number, 2 or more"),
        ({"num_labels": 2.0}, "num_labels is 2.0"),
        ({"num_labels": "2"}, "num_labels is 2"),
    ],
    ids=str,
)
def test_what_it_cannot_make_is_refused_in_one_sentence(options, words):
    with pytest.raises(ValueError) as refused:
        models.classifier(**options)
    text = str(refused.value)
    assert text.startswith(words) and text.endswith(".") and "\n" not in text


@pytest.fixture
def pretrained(tmp_path, monkeypatch):
    """A small body with the head of its pre-training, where the Hub's would be."""
    config = copy.deepcopy(models.classifier().config)
    torch.manual_seed(5)
    body = DistilBertForMaskedLM(config)
    body.save_pretrained(tmp_path)
    monkeypatch.setattr(data, "DISTILBERT", str(tmp_path))
    monkeypatch.setattr(hub, "reachable", lambda: True)
    return tmp_path, body


def test_pretrained_weights_are_kept_and_only_the_head_is_drawn(pretrained, caplog):
    level = transformers_logging.get_verbosity()
    logger = logging.getLogger("transformers")
    logger.addHandler(caplog.handler)
    try:
        first, again, other = (
            models.classifier("distilbert", seed=s) for s in (1, 1, 2)
        )
    finally:
        logger.removeHandler(caplog.handler)
    assert not caplog.records, "the report that the head is new is for no learner"
    assert transformers_logging.get_verbosity() == level
    saved = pretrained[1].distilbert
    assert torch.equal(weights(first.distilbert), weights(saved))
    assert torch.equal(weights(first), weights(again))
    assert not torch.equal(first.classifier.weight, other.classifier.weight)
    assert first.dtype == torch.float32 and first.config.dropout == 0


def test_files_that_lack_a_weight_of_the_body_are_refused(pretrained):
    file = pretrained[0] / "model.safetensors"
    tensors = load_file(file)
    lost = next(name for name in tensors if "q_lin.weight" in name)
    del tensors[lost]
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(ValueError, match="delete its folder in the cache") as refused:
        models.classifier("distilbert")
    assert lost in str(refused.value)


def test_three_epochs_learn_the_tickets():
    tickets, model = data.load(), models.classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    updates = 3 * math.ceil(math.ceil(len(tickets.train) / 8) / 4)
    history = training.train(
        model,
        data.loader(tickets, 8, shuffle=True),
        optimizer=optimizer,
        accumulation_steps=4,
        epochs=3,
        scheduler=get_linear_schedule_with_warmup(optimizer, updates // 10, updates),
        max_norm=1.0,
        validation=data.loader(tickets, 64, split="validation"),
        progress=False,
    )
    first, _, last = history.evaluations
    assert torch.get_num_threads() == 1 and len(history.updates) == updates
    assert last["accuracy"] >= 0.90 and last["f1"] >= 0.85, history
    assert last["f1"] > first["f1"] and last["loss"] < first["loss"], history


# Loads, trains on a window and evaluates; ends at once if it connects to anything.
WHOLE = """
import os, sys
sys.addaudithook(
    lambda name, _: name in ("socket.connect", "socket.getaddrinfo") and os._exit(9)
)
import torch
from helpers import data, models, training
torch.set_num_threads(1)
tickets, model = data.load(), models.classifier()
optimizer = torch.optim.AdamW(model.parameters())
training.train(model, data.loader(tickets, 8, rows=32), optimizer=optimizer,
    accumulation_steps=4, progress=False,
    validation=data.loader(tickets, 64, split="validation"))
print(training.evaluate(model, data.loader(tickets, 64, split="validation")))
"""


def test_with_nothing_to_write_to_it_loads_trains_evaluates_and_leaves_no_file(
    tmp_path,
):
    def course():
        files = [
            p for folder in ("helpers", "data") for p in (ROOT / folder).rglob("*")
        ]
        return {path for path in files if "__pycache__" not in str(path)}

    for folder in ("work", "temporary"):
        (tmp_path / folder).mkdir()
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "beneath")  # closed to root as well
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HF_", "XDG_"))
    }
    environment |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(tmp_path / "temporary"))
    homes = ("HOME", "USERPROFILE", "HF_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
    environment |= dict.fromkeys(homes, nowhere) | {"PYTHONPATH": str(ROOT)}
    before = course()
    found = subprocess.run(
        [sys.executable, "-B", "-c", WHOLE],
        cwd=tmp_path / "work",
        env=environment,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("{'loss': ") and "'f1': " in found.stdout
    left = {path.name for path in tmp_path.rglob("*")}
    assert left == {"work", "temporary", "file"} and course() == before
