"""The embedded tickets: made again to the byte, read, and fed in micro-batches."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from helpers import data

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "data"
MADE = (
    "train.jsonl",
    "validation.jsonl",
    "tokenizer/tokenizer.json",
    "tokenizer/tokenizer_config.json",
)


@pytest.fixture(scope="module")
def tickets():
    return data.load()


def run(*command, **options):
    options = {"capture_output": True, "text": True, "cwd": ROOT} | options
    return subprocess.run([str(part) for part in command], **options)


@pytest.fixture
def scripts(tmp_path):
    """The scripts of data/ alone, in a folder where they write what they make."""
    for path in FOLDER.glob("*.py"):
        shutil.copy(path, tmp_path)
    return tmp_path


def make_again(python, scripts, hash_seed):
    # -S leaves the installed packages out: the standard library has to do.
    for script in ("make_tickets.py", "make_tokenizer.py"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        found = run(python, "-S", "-B", scripts / script, env=environment)
        assert found.returncode == 0, found.stderr
    for name in MADE:
        same = (scripts / name).read_bytes() == (FOLDER / name).read_bytes()
        assert same, f"{name} is not what data/ makes"


@pytest.mark.parametrize("hash_seed", ["1", "4711"])
def test_data_and_tokenizer_are_made_again_to_the_byte(hash_seed, scripts):
    make_again(sys.executable, scripts, hash_seed)


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_every_python_makes_the_same_bytes(version, scripts):
    python = shutil.which(f"python{version}")
    if python is None or run(python, "-c", "").returncode:
        pytest.skip(f"no Python {version} on this machine")
    make_again(python, scripts, "random")


@pytest.mark.parametrize("script", ["make_tickets.py", "make_tokenizer.py"])
def test_check_names_the_changed_file_and_writes_nothing(script, scripts):
    for name in MADE:
        (scripts / name).parent.mkdir(exist_ok=True)
        shutil.copy(FOLDER / name, scripts / name)
    assert run(sys.executable, scripts / script, "--check").returncode == 0
    name = MADE[0] if script == "make_tickets.py" else MADE[2]
    changed = (FOLDER / name).read_bytes().replace(b"e", b"a", 1)
    (scripts / name).write_bytes(changed)
    found = run(sys.executable, scripts / script, "--check")
    message = f"{Path(name).name} is not what {script} makes: run python data/{script}"
    assert found.returncode == 1 and found.stderr.strip() == message
    assert (scripts / name).read_bytes() == changed


def test_the_figures_of_the_data_card_are_up_to_date():
    found = run(sys.executable, FOLDER / "make_card.py", "--check")
    assert found.returncode == 0, found.stderr


def test_columns_types_and_sizes(tickets):
    assert (tickets.name, tickets.text_columns) == ("tickets", ("subject", "body"))
    assert tickets.label_names == ("can wait", "urgent")
    for split, count in (("train", 2036), ("validation", 408)):
        rows = getattr(tickets, split)
        assert rows.column_names == ["subject", "body", "label", "idx"]
        assert [rows.features[c].dtype for c in ("subject", "body")] == ["string"] * 2
        assert rows.features["label"].names == ["can wait", "urgent"]
        assert str(rows.split) == split and rows["idx"][:] == list(range(count))
        assert not rows.cache_files
        for text in (*rows["subject"], *rows["body"]):
            assert text.strip() == text != "" and text.isascii()
            assert not set("{}") & set(text)


def test_both_classes_are_there_in_both_splits_in_like_shares(tickets):
    shares = [np.mean(rows["label"]) for rows in (tickets.train, tickets.validation)]
    assert all(0.25 < share < 0.35 for share in shares)
    assert abs(shares[0] - shares[1]) < 0.02


def test_no_text_appears_twice_within_or_across_the_splits(tickets):
    splits = (tickets.train, tickets.validation)
    texts = [pair for s in splits for pair in zip(s["subject"], s["body"], strict=True)]
    assert len(set(texts)) == len(texts) == 2444


def test_labels_follow_the_rule_but_for_the_noise_that_the_card_tells(
    tickets, monkeypatch
):
    monkeypatch.syspath_prepend(FOLDER)
    import words

    def pattern(sentences):
        wild = (re.sub(r"\\\{\w+\\\}", ".+?", re.escape(s)) for s in sentences)
        return re.compile("|".join(wild))

    problem = pattern(s for group in words.PROBLEMS.values() for s in group)
    soon, danger = pattern(words.SOON), pattern(words.DANGER)
    settled = pattern(words.SETTLED)
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    told = re.search(r"\| labels flipped \| (\d+) \(.*?\| (\d+) \(", card).groups()
    for rows, flipped in zip((tickets.train, tickets.validation), told, strict=True):
        against = 0
        for body, label in zip(rows["body"], rows["label"], strict=True):
            press = danger.search(body) or (problem.search(body) and soon.search(body))
            against += bool(press and not settled.search(body)) != label
        assert against == int(flipped) and 0.02 < against / len(rows) < 0.04


def test_rows_become_numbers_of_both_texts_cut_at_max_length(tickets):
    rows, read = tickets.tokenized("validation"), tickets.tokenizer
    assert set(rows.column_names) == {"input_ids", "attention_mask", "labels"}
    assert rows["labels"][:] == tickets.validation["label"][:]
    assert max(map(len, rows["input_ids"])) == tickets.max_length == 64
    first = tickets.validation[0]
    text = f"[CLS] {first['subject'].lower()} [SEP] {first['body'].lower()} [SEP]"
    decoded = read.decode(rows[0]["input_ids"])
    assert "".join(decoded.split()) == "".join(text.split())
    assert tickets.tokenized("validation") is rows
    unknown = read.unk_token_id
    assert not any(unknown in ids for ids in tickets.tokenized()["input_ids"])


@pytest.mark.parametrize("batch_size", [1, 8, 32])
def test_each_micro_batch_is_padded_to_its_own_longest_row(tickets, batch_size):
    rows, start, longest = tickets.tokenized("validation"), 0, set()
    for batch in data.loader(tickets, batch_size, split="validation"):
        lengths = [len(ids) for ids in rows[start : start + batch_size]["input_ids"]]
        assert set(batch) == {"input_ids", "attention_mask", "labels"}
        assert {tensor.dtype for tensor in batch.values()} == {torch.int64}
        assert batch["input_ids"].shape == (len(lengths), max(lengths))
        assert batch["attention_mask"].shape == (len(lengths), max(lengths))
        assert batch["attention_mask"].sum(1).tolist() == lengths
        padding = batch["input_ids"][batch["attention_mask"] == 0]
        assert (padding == tickets.tokenizer.pad_token_id).all()
        assert batch["labels"].shape == (len(lengths),)
        longest.add(max(lengths))
        start += batch_size
    assert start >= len(rows) and len(longest) > 1


def numbers(loader):
    return [i for batch in loader for i in batch["labels"].tolist()]


def test_the_sizes_leave_the_remainders_that_the_lessons_need(tickets):
    last = [list(data.loader(tickets, size))[-1]["labels"] for size in (32, 8)]
    assert [len(labels) for labels in last] == [20, 4]
    assert len(data.loader(tickets, 8)) % 4 == 3


@pytest.mark.parametrize(
    "rows",
    [3, np.int64(3), range(3), [0, 1, 2], torch.arange(3), np.arange(3)],
    ids=repr,
)
def test_rows_are_a_number_or_numbers_of_rows(tickets, rows):
    (batch,) = data.loader(tickets, 8, rows=rows)
    (other,) = data.loader(tickets, 8, rows=[2, 1, 0])
    assert torch.equal(batch["input_ids"], other["input_ids"].flip(0))


def test_shuffling_draws_new_orders_from_the_seed_alone(tickets):
    def epochs(size, seed=0):
        loader = data.loader(tickets, size, shuffle=True, seed=seed)
        return [numbers(loader), numbers(loader)]

    state = torch.get_rng_state()
    first, second = epochs(8)
    assert torch.equal(torch.get_rng_state(), state)
    assert first != second and sorted(first) == sorted(second)
    assert first != numbers(data.loader(tickets, 8))
    assert epochs(32) == [first, second] != epochs(8, seed=1)


@pytest.mark.parametrize(
    ("error", "call", "words"),
    [
        (ValueError, lambda _: data.load("glue"), "no corpus 'glue': take \"tickets\""),
        (ValueError, lambda _: data.load(tokenizer="bert"), "no tokenizer 'bert'"),
        (ValueError, lambda t: t.tokenized("test"), "no split 'test'"),
        (ValueError, lambda t: data.loader(t, 8, split="dev"), "no split 'dev'"),
        (ValueError, lambda t: data.loader(t, 0), "batch_size is 0, and has to be 1"),
        (TypeError, lambda t: data.loader(t, 2.0), "batch_size is 2.0"),
        (TypeError, lambda t: data.loader(t, "8"), "batch_size is '8'"),
        (ValueError, lambda t: data.loader(t, 8, rows=0), "rows is 0"),
        (ValueError, lambda t: data.loader(t, 8, rows=2037), "rows is 2037"),
        (ValueError, lambda t: data.loader(t, 8, rows=[]), "rows is empty"),
        (ValueError, lambda t: data.loader(t, 8, rows=[2036]), "last of train is 2035"),
        (ValueError, lambda t: data.loader(t, 8, rows=[-1]), "in rows is -1"),
        (TypeError, lambda t: data.loader(t, 8, rows=["a"]), "in rows is 'a'"),
        (ValueError, lambda t: data.loader(t, 8, seed=-1), "seed is -1"),
    ],
)
def test_what_it_cannot_do_is_refused_in_one_sentence(tickets, error, call, words):
    with pytest.raises(error) as refused:
        call(tickets)
    text = str(refused.value)
    assert words in text and text.endswith(".") and "\n" not in text


def test_a_tokenizer_of_your_own_is_taken_if_it_can_pad(tickets):
    own = data.tickets_tokenizer()
    assert data.load(tokenizer=own).tokenizer is own
    file = str(FOLDER / "tokenizer" / "tokenizer.json")
    with pytest.raises(ValueError, match="has no padding token: give it one"):
        data.load(tokenizer=PreTrainedTokenizerFast(tokenizer_file=file))
