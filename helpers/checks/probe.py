"""A small model in float64 that checks of exercises run a learner's code on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Output:
    """What a model with a loss returns."""

    loss: Tensor
    logits: Tensor


class Batch(dict):
    """Names to tensors, with the `.to(device)` that real micro-batches have."""

    def to(self, device: torch.device | str) -> Batch:
        return Batch({name: tensor.to(device) for name, tensor in self.items()})


class Probe(nn.Module):
    """Mean cross-entropy over the rows whose label is not -100.

    Attributes:
        forwards: how many micro-batches it has seen.
        most_open: most micro-batches whose graph was alive at once.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.hidden = nn.Linear(6, 8)
        self.head = nn.Linear(8, 3)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, generator=generator) / 2)
        self.double()
        self.forwards = self.open = self.most_open = 0

    def forward(self, x: Tensor, labels: Tensor) -> Output:
        device = self.head.weight.device  # a learner may have moved the batch to a GPU
        x, labels = x.to(device), labels.to(device)
        logits = self.head(torch.tanh(self.hidden(x)))
        loss = nn.functional.cross_entropy(logits, labels)
        self.forwards += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        if (
            logits.requires_grad
        ):  # on the logits: a learner may take a loss of their own
            logits.register_hook(self._closed)
        return Output(loss, logits)

    def _closed(self, _: Tensor) -> None:
        self.open -= 1


def micro_batches(sizes: list[int], seed: int, ignored: int = 0) -> list[Batch]:
    """One micro-batch a size; the first `ignored` labels of the last one are -100.

    Returns:
        Batches of x (size, 6), float64, and labels (size,).
    """
    generator = torch.Generator().manual_seed(seed)
    batches = [
        Batch(
            x=torch.randn(size, 6, generator=generator, dtype=torch.float64),
            labels=torch.randint(3, (size,), generator=generator),
        )
        for size in sizes
    ]
    batches[-1]["labels"][:ignored] = -100
    return batches
