"""Tiny models and batches in float64 for the tests of the loop."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import nn


class RowClassifier(nn.Module):
    """Mean cross-entropy over rows; labels of -100 do not count."""

    def __init__(self, features=5, classes=3, dropout=0.0):
        super().__init__()
        self.hidden = nn.Linear(features, 7)
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(7, classes)

    def forward(self, x, labels=None):
        logits = self.head(self.drop(torch.tanh(self.hidden(x))))
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(
                logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
            )
        return SimpleNamespace(loss=loss, logits=logits)


def model(seed=0, **options):
    torch.manual_seed(seed)
    return RowClassifier(**options).double()


def rows(n, seed=1, features=5, classes=3):
    """n rows in one batch: x (n, features), labels (n,)."""
    g = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randn(n, features, generator=g, dtype=torch.float64),
        "labels": torch.randint(classes, (n,), generator=g),
    }


def tokens(counts, longest=6, seed=1, features=5, classes=3):
    """One row a count: x (rows, longest, features), labels -100 past the count."""
    n = len(counts)
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n, longest), generator=g)
    for row, count in enumerate(counts):
        labels[row, count:] = -100
    x = torch.randn(n, longest, features, generator=g, dtype=torch.float64)
    return {"x": x, "labels": labels}


def cut(batch, size):
    """Micro-batches of `size` rows, the last one ragged."""
    n = len(batch["labels"])
    return [
        {name: t[i : i + size] for name, t in batch.items()} for i in range(0, n, size)
    ]
