"""Whole texts for a causal language model: each token is to be told from those before.

    texts = texts.of(data.load("tickets"))
    data.loader(texts, 8)             # as for a classifier, with other labels

The loss of such a model is shifted by one: nothing comes before the first token of a
row, so its label is no target. `count_targets` knows that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from helpers.data import Corpus

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor
    from transformers import BatchEncoding

IGNORED = -100


class Texts(Corpus):
    """A corpus whose labels are the tokens themselves; all else is as in `Corpus`."""

    def tokenized(self, split: str = "train") -> Dataset:
        """The rows as numbers: `input_ids`, `attention_mask`, `labels`, not padded.

        `labels` are the `input_ids` of the row, the special tokens included.

        Raises:
            ValueError: `split` is neither "train" nor "validation".
        """
        rows = super().tokenized(split)
        if rows["labels"][0] != rows["input_ids"][0]:
            rows = rows.remove_columns("labels")
            rows = rows.add_column("labels", list(rows["input_ids"]))
            self._tokenized[split] = rows
        return rows

    @property
    def collator(self) -> Callable[[list[dict[str, Any]]], BatchEncoding]:
        """Makes a micro-batch of a list of rows, padded to the longest of them.

        It returns `input_ids`, `attention_mask` and `labels`, all int64 of shape
        (rows, longest); the padding's labels are -100.
        """
        from transformers import DataCollatorForSeq2Seq

        return DataCollatorForSeq2Seq(self.tokenizer, label_pad_token_id=IGNORED)


def of(corpus: Corpus) -> Texts:
    """The same rows for a causal language model."""
    known = {
        field.name: getattr(corpus, field.name)
        for field in dataclasses.fields(corpus)
        if field.init
    }
    return Texts(**known)


def count_targets(batch: Mapping[str, Tensor]) -> int:
    """Labels of a micro-batch that count in a causal language model's mean loss.

    `labels` is (rows, length). The first of each row is shifted away, and -100 is
    ignored.

    Raises:
        ValueError: `labels` is missing or not of two axes.
    """
    labels = batch.get("labels")
    if labels is None or labels.ndim != 2:
        found = "no `labels`" if labels is None else f"labels {tuple(labels.shape)}"
        raise ValueError(
            f"The micro-batch has {found}; a causal language model wants one label a "
            "token, of shape (rows, length)."
        )
    return int((labels[:, 1:] != IGNORED).sum())
