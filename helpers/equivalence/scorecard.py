"""Every way to train against every situation: how far off is each, measured now."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from .reference import gradient, join
from .ways import WAYS, Outcome, Task, large_batch

TOLERANCE = 1e-4  # the Trainer computes in single precision
VOCABULARY, LENGTH = 60, 12
ROWS, STEPS = 4, 4  # of a micro-batch, and micro-batches in a window
Error = Callable[[Outcome, Outcome, Task], float]


@dataclass(frozen=True)
class Situation:
    """One row of the card: how the micro-batches are, and what is compared."""

    name: str
    sizes: Sequence[int] = (ROWS,) * 8
    unequal: bool = False
    clips: bool = False
    decays: bool = False
    error: str = "weights"


SITUATIONS = (
    Situation("full windows"),
    Situation("short last window", (ROWS,) * 10),
    Situation("ragged last batch", (ROWS,) * 7 + (1,)),
    Situation("unequal targets", unequal=True),
    Situation("clipping", clips=True),
    Situation("rate at the end", (ROWS,) * 10, decays=True, error="rate"),
    Situation("number of updates", (ROWS,) * 10, error="updates"),
    Situation("logged loss", error="logged"),
)


@dataclass(frozen=True)
class Scorecard:
    """Relative errors: one row a situation, one column a way to train.

    Attributes:
        ways, situations: names of the columns and of the rows.
        errors: errors[row][column]; below 1e-4 it is rounding.
    """

    ways: tuple[str, ...]
    situations: tuple[str, ...]
    errors: tuple[tuple[float, ...], ...]

    def exact(self, way: str) -> bool:
        """Whether this way is right in every situation."""
        column = self.ways.index(way)
        return all(row[column] < TOLERANCE for row in self.errors)

    def column(self, way: str) -> dict[str, float]:
        """Situation -> relative error, of one way."""
        place = self.ways.index(way)
        return {
            name: row[place]
            for name, row in zip(self.situations, self.errors, strict=True)
        }

    def __str__(self) -> str:
        first = max(map(len, self.situations))
        lines = [f"{i}  {way}" for i, way in enumerate(self.ways, 1)]
        numbers = "".join(f"{i:>10}" for i in range(1, len(self.ways) + 1))
        lines += ["", f"{'':{first}}{numbers}"]
        for name, row in zip(self.situations, self.errors, strict=True):
            lines.append(f"{name:{first}}" + "".join(f"{said(e):>10}" for e in row))
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        right = "style='text-align:right;padding:.2em .7em'"
        head = "".join(
            f"<th scope='col' {right}>{html.escape(way, quote=False)}</th>"
            for way in self.ways
        )
        rows = "".join(
            f"<tr><th scope='row' {right}>{name}</th>"
            + "".join(f"<td {right}>{said(error)}</td>" for error in row)
            + "</tr>"
            for name, row in zip(self.situations, self.errors, strict=True)
        )
        return (
            f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody>"
            "</table>"
        )


def said(error: float) -> str:
    """A relative error in few signs, with a tick where it is rounding."""
    if not math.isfinite(error):
        return "✘ NaN"
    return "✔" if error < TOLERANCE else f"✘ {error:.2g}"


def scorecard(ways: Sequence[str] | None = None) -> Scorecard:
    """Train in every way and every situation, and compare with large batches.

    A tiny masked language model trains for one epoch with SGD. The error is the
    distance of the weights from those that large batches give, over the way that they
    went; for the last three rows that of the rate left after the last update (over the
    first rate), of the number of updates, and of the losses logged, the worst one.

    Args:
        ways: some of the columns by name; all where it is None.

    Raises:
        ValueError: no such way.
    """
    chosen = list(WAYS) if ways is None else list(ways)
    for way in chosen:
        if way not in WAYS:
            raise ValueError(f"There is no way {way!r}; known are: {', '.join(WAYS)}.")
    errors = []
    for situation in SITUATIONS:
        task = _task(situation)
        wanted = large_batch(task)
        start = torch.cat(
            [p.detach().double().flatten() for p in task.make_model().parameters()]
        )
        errors.append(
            tuple(
                _error(WAYS[way](task), wanted, start, situation.error)
                for way in chosen
            )
        )
    names = tuple(situation.name for situation in SITUATIONS)
    return Scorecard(tuple(chosen), names, tuple(errors))


def _error(found: Outcome, wanted: Outcome, start: torch.Tensor, what: str) -> float:
    if what == "weights":
        way = (wanted.weights - start).norm()
        return ((found.weights - wanted.weights).norm() / way).item()
    if what == "rate":  # the plan ends at 0
        return found.rate / Task.rate
    if what == "updates":
        return abs(found.updates - wanted.updates) / wanted.updates
    pairs = zip(found.logged, wanted.logged, strict=False)
    return max(abs(said / true - 1) for said, true in pairs)


def _task(situation: Situation) -> Task:
    generator = torch.Generator().manual_seed(5)
    batches = [_batch(rows, situation.unequal, generator) for rows in situation.sizes]
    task = Task(_model, batches, STEPS, decays=situation.decays)
    if not situation.clips:
        return task
    # A limit that a right gradient stays below; one that is k times too long does not.
    model, _, _ = task.parts()
    model(**join(batches[:STEPS])).loss.backward()
    norm = torch.cat([g.flatten() for g in gradient(model).values()]).norm().item()
    return replace(task, max_norm=1.5 * norm)


def _batch(rows: int, unequal: bool, generator: torch.Generator) -> dict:
    ids = torch.randint(5, VOCABULARY, (rows, LENGTH), generator=generator)
    labels = torch.full_like(ids, -100)
    for row in range(rows):
        count = 3
        if unequal:
            count = int(torch.randint(1, LENGTH + 1, (), generator=generator))
        labels[row, :count] = ids[row, :count]
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "labels": labels,
    }


def _model() -> nn.Module:
    import transformers

    config = transformers.DistilBertConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH,
        dim=16,
        n_layers=1,
        n_heads=2,
        hidden_dim=32,
        dropout=0.0,
        attention_dropout=0.0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return transformers.DistilBertForMaskedLM(config)
