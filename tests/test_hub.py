"""The Hub against stand-ins on 127.0.0.1: a broken one fails fast, a working one works.

The Hub's libraries read their addresses once, at import: hence a process for each case.
In it, a connection to any other machine ends the process.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import datasets
import pytest
import torch
from transformers import DistilBertForMaskedLM

from helpers import data, hub, models
from tests import hub_server

ROOT = Path(__file__).resolve().parents[1]
GUARD = """
import json, os, sys, time
def guard(name, arguments):
    if name in ("socket.connect", "socket.getaddrinfo"):
        host = arguments[0] if name.endswith("info") else arguments[1][0]
        if host == "datasets-server.127.0.0.1":  # datasets can do without its viewer
            raise OSError("There is no such server.")
        if host not in ("127.0.0.1", b"127.0.0.1"):
            print("A connection to", arguments, file=sys.stderr, flush=True)
            os._exit(9)
sys.addaudithook(guard)
import datasets, torch
from transformers import AutoTokenizer, DistilBertForSequenceClassification
from helpers import data, hub, models, training
torch.set_num_threads(1)
"""
# Asks for each of the three downloads, and says how it ended and after how long.
ASK = """
tickets = data.tickets_tokenizer()
found = []
for ask in (
    lambda: data.load("mrpc", tokenizer=tickets),
    lambda: data.load("tickets", tokenizer="distilbert"),
    lambda: data.load("mrpc"),
    lambda: models.classifier("distilbert"),
):
    start = time.perf_counter()
    try:
        kind, text = "result", repr(ask())
    except Exception as error:
        kind, text = type(error).__name__, str(error)
    found.append([kind, text, time.perf_counter() - start])
print(json.dumps(found))
"""
# Loads all from the Hub, takes it through collator and loop, and prints what came.
TRAIN = """
corpus = data.load("mrpc")
model = models.classifier("distilbert", seed=3)
body = {k: v.clone() for k, v in model.distilbert.state_dict().items()}
loader = data.loader(corpus, 4, rows=8)
history = training.train(
    model,
    loader,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    accumulation_steps=2,
    progress=False,
)
torch.save(body, sys.argv[1])
print(json.dumps({
    "columns": corpus.train.column_names,
    "text_columns": corpus.text_columns,
    "label_names": corpus.label_names,
    "rows": [len(corpus.train), len(corpus.validation)],
    "first": corpus.train[0],
    "batches": [{k: list(v.shape) for k, v in batch.items()} for batch in loader],
    "losses": [update.loss for update in history.updates],
    "moved": not torch.equal(
        body["transformer.layer.0.ffn.lin1.weight"],
        model.distilbert.transformer.layer[0].ffn.lin1.weight,
    ),
}))
"""


def python(code, home, *arguments, **variables):
    """Runs code in a process of its own with nothing set but `variables`."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HF_", "XDG_")) and not name.lower().endswith("_proxy")
    }
    # datasets counts what it loads at an address of its own, whatever HF_ENDPOINT is.
    environment |= {"HF_UPDATE_DOWNLOAD_COUNTS": "0", "OMP_NUM_THREADS": "1"}
    environment |= {"HF_HOME": str(home)} | variables
    return subprocess.run(
        [sys.executable, "-B", "-c", GUARD + code, *map(str, arguments)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def ask(home, **variables):
    found = python(ASK, home, **variables)
    assert found.returncode == 0, found.stderr
    assert "Traceback" not in found.stderr, found.stderr
    outcomes = json.loads(found.stdout.splitlines()[-1])
    for kind, text, _ in outcomes:
        assert kind == "HubUnavailable", text
        assert text.endswith(".") and "\n" not in text and len(text) < 400
    return outcomes


def check_way_out(outcomes):
    """Each names what is missing, and the call that needs no network."""
    mrpc, tokenizer, both, model = (text for _, text, _ in outcomes)
    assert mrpc.startswith("MRPC (nyu-mll/glue) ")
    assert 'use data.load("tickets")' in mrpc
    for text in (tokenizer, both):
        assert text.startswith(f"The tokenizer of {data.DISTILBERT} ")
        assert 'use data.load("tickets") with its own tokenizer' in text
    assert model.startswith(f"{data.DISTILBERT} ")
    assert 'use models.classifier("tiny")' in model


@pytest.mark.parametrize("server", ["refusing", "hanging", "unavailable"])
def test_a_broken_hub_is_one_sentence_within_seconds(server, tmp_path):
    with getattr(hub_server, server)() as address:
        outcomes = ask(tmp_path, HF_ENDPOINT=address)
    check_way_out(outcomes)
    for _, text, seconds in outcomes:
        assert f"because {address} does not answer" in text
        assert "HF_HUB_OFFLINE=1" in text
        assert seconds < 6


def test_a_slow_name_lookup_does_not_outlast_the_timeout(monkeypatch):
    reply = SimpleNamespace(status_code=200)
    slow = SimpleNamespace(head=lambda *_, **__: time.sleep(3) or reply)
    monkeypatch.setattr("huggingface_hub.get_session", lambda: slow)
    start = time.perf_counter()
    assert not hub.reachable(0.2) and time.perf_counter() - start < 2


def test_a_hub_that_lacks_the_files_is_one_sentence(tmp_path):
    with hub_server.working(tmp_path / "empty") as address:
        outcomes = ask(tmp_path / "home", HF_ENDPOINT=address)
    check_way_out(outcomes)
    assert all(f"could not be had from {address}" in text for _, text, _ in outcomes)


@pytest.mark.parametrize("other", ["", "datasets/nyu-mll___glue/sst2/0.0.0/1a2b"])
def test_offline_with_a_cache_that_lacks_it_is_one_sentence(other, tmp_path):
    (tmp_path / other).mkdir(parents=True, exist_ok=True)
    outcomes = ask(tmp_path, HF_HUB_OFFLINE="1")
    check_way_out(outcomes)
    for _, text, seconds in outcomes:
        assert f"is not in the cache ({tmp_path})" in text
        assert "start again without it" in text and seconds < 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small MRPC and a small DistilBERT as they lie on the Hub."""
    root = tmp_path_factory.mktemp("hub")
    model = root / "models" / data.DISTILBERT
    torch.manual_seed(5)
    DistilBertForMaskedLM(models.classifier().config).save_pretrained(model)
    shutil.copy(ROOT / "data" / "tokenizer" / "tokenizer.json", model)
    (model / "tokenizer_config.json").write_text('{"model_max_length": 512}')
    glue = root / "datasets" / "nyu-mll" / "glue"
    text, number = datasets.Value("string"), datasets.Value("int32")
    names = datasets.ClassLabel(names=["not_equivalent", "equivalent"])
    features = {"sentence1": text, "sentence2": text, "label": names, "idx": number}
    card = "---\nconfigs:\n- config_name: mrpc\n  data_files:\n"
    for split, count in {"train": 20, "validation": 9, "test": 3}.items():
        rows = [
            {
                "sentence1": f"I still wait for order {i}.",
                "sentence2": "Thank you." * (i % 5 + 1),
                "label": i % 2,
                "idx": i,
            }
            for i in range(count)
        ]
        table = datasets.Dataset.from_list(rows, datasets.Features(features))
        (glue / "mrpc").mkdir(parents=True, exist_ok=True)
        table.to_parquet(glue / "mrpc" / f"{split}-00000-of-00001.parquet")
        card += f"  - split: {split}\n    path: mrpc/{split}-*\n"
    (glue / "README.md").write_text(f"{card}---\n")
    return root


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The cache that the first download fills and the offline run reads."""
    return tmp_path_factory.mktemp("home")


def check_training(found, folder, body):
    assert found.returncode == 0, found.stderr
    assert "MISSING" not in found.stderr and "Warning" not in found.stderr
    came = json.loads(found.stdout.splitlines()[-1])
    assert came["columns"] == ["sentence1", "sentence2", "label", "idx"]
    assert came["text_columns"] == ["sentence1", "sentence2"]
    assert came["label_names"] == ["not_equivalent", "equivalent"]
    assert came["rows"] == [20, 9]
    assert came["first"]["sentence1"] == "I still wait for order 0."
    for batch in came["batches"]:
        assert set(batch) == {"input_ids", "attention_mask", "labels"}
        assert batch["input_ids"] == batch["attention_mask"] and batch["labels"] == [4]
    (loss,) = came["losses"]
    assert math.isfinite(loss) and loss > 0 and came["moved"]
    served = DistilBertForMaskedLM.from_pretrained(folder / "models" / data.DISTILBERT)
    for name, tensor in served.distilbert.state_dict().items():
        assert torch.equal(torch.load(body)[name], tensor), name


def test_from_a_working_hub_all_goes_through_the_same_loop(folder, home, tmp_path):
    with hub_server.working(folder) as address:
        found = python(TRAIN, home, tmp_path / "body", HF_ENDPOINT=address)
    check_training(found, folder, tmp_path / "body")


def test_offline_what_was_downloaded_before_is_used(folder, home, tmp_path):
    if not (home / "hub").is_dir():
        with hub_server.working(folder) as address:
            python(TRAIN, home, tmp_path / "first", HF_ENDPOINT=address)
    found = python(TRAIN, home, tmp_path / "body", HF_HUB_OFFLINE="1")
    check_training(found, folder, tmp_path / "body")


def test_a_cache_that_cannot_be_written_is_one_sentence(folder, tmp_path):
    (tmp_path / "file").touch()
    with hub_server.working(folder) as address:
        outcomes = ask(tmp_path / "file" / "home", HF_ENDPOINT=address)
    check_way_out(outcomes)
    for _, text, _ in outcomes:
        assert "cannot be stored" in text and "set HF_HOME to a folder" in text
        assert str(tmp_path / "file") in text
