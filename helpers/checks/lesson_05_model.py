"""A small causal language model in float64 that checks run a learner's code on."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..texts import IGNORED
from .probe import Batch, Output

WORDS = 11


class Speaker(nn.Module):
    """Mean cross-entropy of each token but the first, predicted from the one before.

    As in transformers, `num_items_in_batch` makes it the sum of the losses over that.

    Attributes:
        most_open: most micro-batches whose graph was alive at once.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.tokens = nn.Embedding(WORDS, 6)
        self.head = nn.Linear(6, WORDS)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, generator=generator) / 2)
        self.double()
        self.open = self.most_open = 0

    def forward(
        self,
        input_ids: Tensor,
        labels: Tensor,
        attention_mask: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Output:
        device = self.head.weight.device  # a learner may have moved the batch to a GPU
        input_ids, labels = input_ids.to(device), labels.to(device)
        logits = self.head(torch.tanh(self.tokens(input_ids)))
        loss = nn.functional.cross_entropy(
            logits[:, :-1].transpose(1, 2),
            labels[:, 1:],
            ignore_index=IGNORED,
            reduction="mean" if num_items_in_batch is None else "sum",
        )
        if num_items_in_batch is not None:
            loss = loss / num_items_in_batch
        if logits.requires_grad:  # without a graph nothing is held
            self.open += 1
            self.most_open = max(self.most_open, self.open)
            logits.register_hook(self._closed)
        return Output(loss, logits)

    def _closed(self, _: Tensor) -> None:
        self.open -= 1


def texts(lengths: list[int], seed: int, masked: int = 0, left: bool = False) -> Batch:
    """A micro-batch of rows of these lengths, the padding's labels -100.

    `masked` is how many labels at the start of the first row are -100 as well, as those
    of a question are where only its answer is to be learned. `left` pads at the left.

    Returns:
        A batch of input_ids, attention_mask and labels, each (rows, longest).
    """
    generator = torch.Generator().manual_seed(seed)
    shape = len(lengths), max(lengths)
    ids = torch.randint(1, WORDS, shape, generator=generator)
    mask = torch.zeros(shape, dtype=torch.long)
    for row, length in enumerate(lengths):
        mask[row, shape[1] - length if left else 0 :][:length] = 1
    labels = ids.masked_fill(mask == 0, IGNORED)
    start = shape[1] - lengths[0] if left else 0
    labels[0, start : start + masked] = IGNORED
    return Batch(input_ids=ids * mask, attention_mask=mask, labels=labels)


def window(seed: int, *rows: tuple[list[int], int]) -> list[Batch]:
    """Micro-batches of (lengths of the rows, labels masked in the first of them)."""
    return [texts(lengths, seed + i, m) for i, (lengths, m) in enumerate(rows)]


def weighted(model: Speaker, batches: list[Batch], weights: list[float]) -> None:
    """Add the gradients of the mean losses, each times its weight."""
    for batch, weight in zip(batches, weights, strict=True):
        (model(**batch).loss * weight).backward()
