"""Exercises 5.2 and 5.7 of lesson 5: the targets of a causal language model."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ..exercises import Exercise, Wrong, call, copied, number
from ..texts import count_targets
from .lesson_05_model import Batch, texts

LESSON = "05_unequal_micro_batches"


def _targets(answer) -> str:
    cases = (
        texts([8, 4, 6], 53, masked=4),  # here the wrong ways give different numbers
        texts([9, 5, 7], 51),
        texts([6, 6], 52),
        texts([7, 3], 54, left=True),
    )
    # The token 0 is one like any other.
    cases[1]["input_ids"][0, 2] = cases[1]["labels"][0, 2] = 0
    for batch in cases:
        wanted = count_targets(batch)
        given = copied(batch)
        found = number(call(answer, given))
        if found != wanted:
            raise Wrong(_miscounted(found, batch, wanted), hint=1)
        if not _same(given, batch):
            raise Wrong(
                "The number is right, but the micro-batch has changed, and it is to be "
                "trained on afterwards. Count without writing into it.",
                hint=1,
            )
    return (
        "Labels after the first of each row, -100 left out: what the mean loss is over."
    )


def _same(one: Batch, other: Batch) -> bool:
    if set(one) != set(other):
        return False
    return all(torch.equal(torch.as_tensor(one[name]), other[name]) for name in other)


def _miscounted(found: float, batch: Batch, wanted: int) -> str:
    labels, mask = batch["labels"], batch["attention_mask"]
    kept = labels != -100
    known = {
        int((labels[:, 1:] > 0).sum()): "The label 0 was left out. It is a token like "
        "any other; only -100 is ignored.",
        int(kept.sum()): "All labels were counted. The first of each row has nothing "
        "before it and is shifted away.",
        int(kept.sum()) - len(labels): "One was taken off for each row. Where the "
        "first label is -100 already, as in a row whose question is masked, that is "
        "one too many: leave the first column out instead.",
        int(kept[:, :-1].sum()): "The last column was left out, and it is the first "
        "that goes: a label is predicted from the tokens before it.",
        int(mask.sum()): "All tokens were counted. Ask the labels, and leave the "
        "first of each row out.",
        int(mask[:, 1:].sum()): "Tokens were counted, and labels are what counts: "
        "some tokens have the label -100 and are read, but not learned.",
        labels.numel(): "Everything was counted, the padding too.",
        labels[:, 1:].numel(): "The padding was counted. Its labels are -100.",
    }
    shape = " × ".join(map(str, labels.shape))
    why = known.get(int(found), "") if found == int(found) else ""
    return f"A micro-batch of {shape} has {wanted} targets, not {found:g}. {why}"


targets = Exercise(
    "5.2",
    "targets",
    _targets,
    hints=[
        "Which labels does the loss see? Not those of -100, and not the first column.",
        '(batch["labels"][:, 1:] != -100).sum()',
    ],
    lesson=LESSON,
)


def _first_ignored(answer) -> str:
    for seed, lengths in ((55, [7, 4, 9]), (56, [5, 5])):
        batch = texts(lengths, seed)
        wanted = batch["labels"].clone()
        wanted[:, 0] = -100
        given = copied(batch)
        found = call(answer, given)
        if found is None:
            raise Wrong("Nothing came back. Return the micro-batch.", hint=1)
        if isinstance(found, torch.Tensor) or not isinstance(found, Mapping):
            raise Wrong(
                "The whole micro-batch is wanted back: input_ids, attention_mask and "
                "labels.",
                hint=1,
            )
        if missing := set(batch) - set(found):
            raise Wrong(f"The micro-batch has lost its {min(missing)!r}.", hint=1)
        if not torch.equal(torch.as_tensor(found["input_ids"]), batch["input_ids"]):
            raise Wrong(
                "The input_ids have changed. The model has to read the first token; "
                "only its label goes.",
                hint=0,
            )
        mask = torch.as_tensor(found["attention_mask"])
        if not torch.equal(mask, batch["attention_mask"]):
            raise Wrong(
                "The attention_mask has changed. The model has to read the first "
                "token; only its label goes.",
                hint=0,
            )
        if (dtype := torch.as_tensor(found["labels"]).dtype) != wanted.dtype:
            raise Wrong(
                f"The labels have become {dtype}. Keep them {wanted.dtype}: the loss "
                "takes them as numbers of tokens.",
                hint=1,
            )
        _name_the_labels(torch.as_tensor(found["labels"]), batch["labels"], wanted)
    return "Now every way of counting finds the same number, with a shift or without."


def _name_the_labels(found, before, wanted) -> None:
    if found.shape == wanted.shape and torch.equal(found, wanted):
        return
    if found.shape != wanted.shape:
        raise Wrong(
            "The labels have another shape. Keep the column, and put -100 into it.",
            hint=1,
        )
    if torch.equal(found, before):
        raise Wrong("The labels are as they were.", hint=1)
    if bool((found[0] == -100).all()) and torch.equal(found[1:], before[1:]):
        raise Wrong(
            "That is the first row. The first label of each row is the first column: "
            "labels[:, 0].",
            hint=1,
        )
    if torch.equal(found[:, :-1], before[:, :-1]):
        raise Wrong("That is the last column, and the first is wanted.", hint=1)
    if torch.equal(found[:, 1:], before[:, 1:]) and not bool((found[:, 0] < 0).any()):
        raise Wrong("The first column has a value other than -100.", hint=1)
    raise Wrong(
        "The labels were changed in more or less than the first of each row.", hint=1
    )


first_ignored = Exercise(
    "5.7",
    "first_ignored",
    _first_ignored,
    hints=[
        "The loss never sees the first label of a row, so you may set it to anything. "
        "What does every counter leave out?",
        'batch["labels"][:, 0] = -100, and then return the batch.',
    ],
    lesson=LESSON,
)
