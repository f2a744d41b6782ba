"""The texts that the lessons train on, and the micro-batches made of them.

`load("tickets")` is embedded: e-mails to a support desk, urgent or not. It needs no
network and writes nothing. `load("mrpc")` takes MRPC from the Hub: two sentences, the
same in meaning or not. Both are two texts and a label, so all that follows is the same.
"""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers import hub

if TYPE_CHECKING:
    from datasets import Dataset
    from torch.utils.data import DataLoader
    from transformers import BatchEncoding, PreTrainedTokenizerBase

SPLITS = ("train", "validation")
DISTILBERT = "distilbert/distilbert-base-cased"


@dataclass(frozen=True)
class Corpus:
    """Two splits of labelled pairs of texts, and the tokenizer that reads them.

    `train` and `validation` have the two `text_columns`, `label` (a number of
    `label_names`) and `idx`. `max_length` is in tokens; what is longer is cut.
    """

    name: str
    text_columns: tuple[str, ...]
    label_names: tuple[str, ...]
    train: Dataset
    validation: Dataset
    tokenizer: PreTrainedTokenizerBase
    max_length: int
    _tokenized: dict[str, Dataset] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def tokenized(self, split: str = "train") -> Dataset:
        """The rows as numbers: `input_ids`, `attention_mask`, `labels`, not padded.

        Raises:
            ValueError: `split` is neither "train" nor "validation".
        """
        if split not in SPLITS:
            raise ValueError(
                f'{self.name} has no split {split!r}: take "train" or "validation".'
            )
        if split not in self._tokenized:
            from datasets import Dataset

            rows = self.train if split == "train" else self.validation
            encoded = self.tokenizer(
                *(list(rows[column]) for column in self.text_columns),
                truncation=True,
                max_length=self.max_length,
                return_attention_mask=True,
                return_token_type_ids=False,
            )
            columns = {**encoded, "labels": list(rows["label"])}
            self._tokenized[split] = Dataset.from_dict(columns, split=rows.split)
        return self._tokenized[split]

    @property
    def collator(self) -> Callable[[list[dict[str, Any]]], BatchEncoding]:
        """Makes a micro-batch of a list of rows, padded to the longest of them.

        It returns `input_ids` and `attention_mask` of shape (rows, longest), and
        `labels` of shape (rows,), all int64. `.to(device)` moves all three.
        """
        from transformers import DataCollatorWithPadding

        return DataCollatorWithPadding(self.tokenizer)


def load(
    name: str = "tickets", tokenizer: str | PreTrainedTokenizerBase | None = None
) -> Corpus:
    """The corpus `name`: "tickets" (embedded) or "mrpc" (nyu-mll/glue, from the Hub).

    `tokenizer` is None for the corpus's own (made for the tickets; DistilBERT's for
    MRPC), "distilbert" for DistilBERT's from the Hub, or a tokenizer of transformers.

    Raises:
        ValueError: no such corpus or tokenizer, or the tokenizer cannot pad.
        HubUnavailable: the Hub is needed and cannot be reached.
    """
    if name not in ("tickets", "mrpc"):
        raise ValueError(f'There is no corpus {name!r}: take "tickets" or "mrpc".')
    # Tokenizers that ran in threads warn at each later fork, as of `!pip` in a cell.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    tokenizer = _tokenizer(name, tokenizer)
    if name == "tickets":
        splits = {split: _read_tickets(split) for split in SPLITS}
        columns, max_length = ("subject", "body"), 64
    else:
        splits = hub.fetch(
            "MRPC (nyu-mll/glue)", _download_mrpc, instead='data.load("tickets")'
        )
        columns, max_length = ("sentence1", "sentence2"), 128
    return Corpus(
        name=name,
        text_columns=columns,
        label_names=tuple(splits["train"].features["label"].names),
        train=splits["train"],
        validation=splits["validation"],
        tokenizer=tokenizer,
        max_length=max_length,
    )


def loader(
    corpus: Corpus,
    batch_size: int,
    *,
    split: str = "train",
    rows: int | Iterable[int] | None = None,
    shuffle: bool = False,
    seed: int = 0,
) -> DataLoader:
    """Micro-batches of `batch_size` rows; the last one holds what is left.

    `rows` takes the first so many rows, or the rows of these numbers in this order.
    `shuffle` draws a new order each epoch from `seed`; the orders do not depend on
    `batch_size`, and the global random state is left alone.

    Raises:
        TypeError, ValueError: a number that is not a whole one, or out of range.
    """
    import torch
    from torch.utils.data import DataLoader

    batch_size = _whole("batch_size", batch_size)
    dataset = corpus.tokenized(split)
    if rows is not None:
        dataset = dataset.select(_row_numbers(rows, len(dataset), split))
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=shuffle,
        collate_fn=corpus.collator,
        generator=torch.Generator().manual_seed(_whole("seed", seed, least=0)),
    )


def tickets_tokenizer() -> PreTrainedTokenizerBase:
    """The embedded tokenizer: WordPiece, lower case, about 500 entries."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(_folder() / "tokenizer")


def _folder() -> Path:
    """Where the embedded files lie: inside the installed package, or in the project."""
    package = Path(__file__).resolve().parent
    installed = package / "_data"
    return installed if installed.is_dir() else package.parent / "data"


def _read_tickets(split: str) -> Dataset:
    # from_list, as load_dataset would write a copy and needs a cache that it can write.
    from datasets import ClassLabel, Dataset, Features, NamedSplit, Value

    text = (_folder() / f"{split}.jsonl").read_text(encoding="ascii")
    features = Features(
        {
            "subject": Value("string"),
            "body": Value("string"),
            "label": ClassLabel(names=["can wait", "urgent"]),
            "idx": Value("int32"),
        }
    )
    rows = [json.loads(line) for line in text.splitlines()]
    return Dataset.from_list(rows, features=features, split=NamedSplit(split))


def _download_mrpc() -> dict[str, Dataset]:
    from datasets import load_dataset

    return dict(load_dataset("nyu-mll/glue", "mrpc"))


def _tokenizer(name: str, tokenizer: Any) -> PreTrainedTokenizerBase:
    if tokenizer is None:
        if name == "tickets":
            return tickets_tokenizer()
        tokenizer = "distilbert"
    if isinstance(tokenizer, str):
        if tokenizer != "distilbert":
            raise ValueError(
                f'There is no tokenizer {tokenizer!r}: take None, "distilbert", or a '
                "tokenizer of transformers."
            )
        from transformers import AutoTokenizer

        return hub.fetch(
            f"The tokenizer of {DISTILBERT}",
            lambda: AutoTokenizer.from_pretrained(DISTILBERT),
            instead='data.load("tickets") with its own tokenizer',
        )
    if getattr(tokenizer, "pad_token", None) is None:
        raise ValueError(
            f"This tokenizer ({type(tokenizer).__name__}) has no padding token: give "
            "it one, for example tokenizer.pad_token = tokenizer.eos_token."
        )
    return tokenizer


def _whole(name: str, value: Any, least: int = 1) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} is {value!r}, and has to be a whole number, {least} or more."
        ) from None
    if number < least:
        raise ValueError(f"{name} is {number}, and has to be {least} or more.")
    return number


def _row_numbers(rows: Any, length: int, split: str) -> Iterable[int]:
    if not hasattr(rows, "__iter__") or getattr(rows, "ndim", 1) == 0:
        count = _whole("rows", rows)
        if count > length:
            raise ValueError(
                f"rows is {count}, and {split} has {length}: take {length} or fewer, "
                "or leave rows out for all of them."
            )
        return range(count)
    numbers = [_whole("a number in rows", number, least=0) for number in rows]
    if not numbers:
        raise ValueError("rows is empty: name one row at least, or leave rows out.")
    if max(numbers) >= length:
        raise ValueError(
            f"rows names row {max(numbers)}, and the last of {split} is {length - 1}."
        )
    return numbers
