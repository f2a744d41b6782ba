"""Answers to lesson 7, right and wrong, and the words that each wrong one must get."""

from __future__ import annotations

import math

import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from helpers import memory
from tests.answers import Proof

KEPT = {"sgd": 2, "sgd-momentum": 3, "adamw": 4}


def floor_by_branches(weights, optimizer):
    parameters = gradients = 4 * weights
    if optimizer == "adamw":
        return torch.tensor(parameters + gradients + 2 * 4 * weights)
    if optimizer == "sgd-momentum":
        return float(parameters + gradients + 4 * weights)
    return parameters + gradients


def floored(numbers, each=4):
    """An answer that counts so many numbers for each weight, by optimizer."""
    return lambda weights, optimizer: numbers[optimizer] * weights * each


def plan_with_a_list(peak, budget, effective_batch):
    sizes = range(1, effective_batch + 1)
    steps = [math.ceil(effective_batch / size) for size in sizes]
    fitting = [
        (size, k)
        for size, k in zip(sizes, steps, strict=True)
        if peak(size, k) <= budget
    ]
    return max(fitting, default=None)


def plan_named(peak, budget, effective_batch):
    size = effective_batch
    while size:
        k, rest = divmod(effective_batch, size)
        k += rest > 0
        if peak(micro_batch=size, accumulation_steps=k) <= budget:
            return [size, k]
        size -= 1


def planned(sizes=None, asked=None, steps=math.ceil, nothing=None):
    """An answer with sizes to try, steps to ask the peak for, and a way to round."""

    def plan(peak, budget, effective_batch):
        every = range(effective_batch, 0, -1)
        for size in sizes(effective_batch) if sizes else every:
            k = steps(effective_batch / size)
            if peak(size, asked or k) <= budget:
                return size, k
        return nothing and nothing(effective_batch)

    return plan


def plan_swapped(peak, budget, effective_batch):
    found = planned()(peak, budget, effective_batch)
    return found and found[::-1]


def plan_size_alone(peak, budget, effective_batch):
    found = planned()(peak, budget, effective_batch)
    return found and found[0]


def plan_forgets(peak, budget, effective_batch):
    planned()(peak, budget, effective_batch)


def plan_equal_parts(peak, budget, effective_batch):
    for size in range(effective_batch, 0, -1):
        fits = peak(size, math.ceil(effective_batch / size)) <= budget
        if effective_batch % size == 0 and fits:
            return size, effective_batch // size


def plan_rows_too_many(peak, budget, effective_batch):
    found = planned()(peak, budget, effective_batch)
    return found and (found[0] + 1, found[1])


def by_indices(layers, x):
    for place in range(len(layers)):
        x = checkpoint(layers[place], x, use_reentrant=False)
    return x


def one_segment_each(layers, x):
    return checkpoint_sequential(layers, len(layers), x, use_reentrant=False)


def recursive(layers, x):
    if not len(layers):
        return x
    return recursive(layers[1:], checkpoint(layers[0], x, use_reentrant=False))


def nothing_checkpointed(layers, x):
    for layer in layers:
        x = layer(x)
    return x


def all_at_once(layers, x):
    return checkpoint(nothing_checkpointed, layers, x, use_reentrant=False)


def half_of_them(layers, x):
    for place, layer in enumerate(layers):
        x = layer(x) if place % 2 else checkpoint(layer, x, use_reentrant=False)
    return x


def in_groups(size):
    """An answer with so many layers in one checkpoint."""

    def through(layers, x):
        for start in range(0, len(layers), size):
            group = layers[start : start + size]
            x = checkpoint(nothing_checkpointed, group, x, use_reentrant=False)
        return x

    return through


def all_but_the_first(layers, x):
    return by_indices(layers[1:], layers[0](x))


def all_but_the_last(layers, x):
    return layers[-1](by_indices(layers[:-1], x))


def reentrant(layers, x):
    for layer in layers:
        x = checkpoint(layer, x, use_reentrant=True)
    return x


def without_gradients(layers, x):
    with torch.no_grad():
        return nothing_checkpointed(layers, x)


def detached(layers, x):
    for layer in layers:
        x = checkpoint(layer, x.detach(), use_reentrant=False)
    return x


def always_the_input(layers, x):
    for layer in layers:
        out = checkpoint(layer, x, use_reentrant=False)
    return out


def returned_too_soon(layers, x):
    for layer in layers:
        return checkpoint(layer, x, use_reentrant=False)


def called_before(layers, x):
    for layer in layers:
        x = checkpoint(layer(x), use_reentrant=False)
    return x


def not_returned(layers, x):
    for layer in layers:
        x = checkpoint(layer, x, use_reentrant=False)


def a_list(layers, x):
    return [checkpoint(layer, x, use_reentrant=False) for layer in layers]


PROOFS = {
    "7.1": Proof(
        right=[29, torch.tensor(31.5)],
        wrong=[
            (6.9, "too low. Training keeps more"),
            (20.7, "too low"),
            (34.5, "too high"),
            (180, "too high. Of the activations"),
        ],
        given=(30.6,),
        namespace={"weights": 1_807_874, "MiB": memory.MiB},
    ),
    "7.2": Proof(
        right=[floor_by_branches, floored(KEPT)],
        wrong=[
            (floored(KEPT, each=1), "counted numbers"),
            (floored({name: n - 2 for name, n in KEPT.items()}), "state alone"),
            (floored({name: n - 1 for name, n in KEPT.items()}), "is missing"),
            (floored({**KEPT, "sgd-momentum": 4}), "One number too many"),
            (floored(dict.fromkeys(KEPT, 4)), "I expected"),
            (lambda weights, optimizer: KEPT[optimizer.upper()], "KeyError"),
        ],
    ),
    "7.3": Proof(
        right=[plan_with_a_list, plan_named],
        wrong=[
            (planned(asked=1), "ask for the peak with the steps"),
            (planned(steps=math.floor), "Round effective_batch"),
            (plan_equal_parts, "need not divide"),
            (planned(sizes=lambda e: range(1, e + 1)), "Begin with the largest"),
            (planned(nothing=lambda e: (1, e)), "not even one row fits"),
            (planned(steps=float), "has to be an int"),
            (plan_swapped, "the micro-batch comes first"),
            (plan_size_alone, "Two numbers are wanted"),
            (plan_forgets, "`return`"),
            (plan_rows_too_many, "47 rows do not fit"),
        ],
    ),
    "7.4": Proof(
        right=[by_indices, one_segment_each, recursive, all_but_the_last],
        wrong=[
            (nothing_checkpointed, "every layer ran once"),
            (all_at_once, "all of them at once"),
            (half_of_them, "ran so often: [2, 1, 2"),
            (all_but_the_first, "ran so often: [1, 2, 2"),
            (in_groups(2), "several at once: 41%"),
            (in_groups(3), "several at once: 55%"),
            (without_gradients, "lost its graph"),
            (detached, "Did you detach"),
            (always_the_input, "The output is another one"),
            (called_before, "Your code stopped"),
            (not_returned, "NoneType"),
            (a_list, "this is list"),
        ],
        namespace={"checkpoint": checkpoint},
    ),
    "7.6": Proof(
        right=[8.5, torch.tensor(8.03)],
        wrong=[
            (1.39, "too low. All weights are in memory"),
            (6.90, "too low"),  # every weight once, without the detours
            (6.99, "too low"),  # and with them
            (7.68, "three numbers more"),  # one number of AdamW
            (28.0, "too high. A frozen weight"),
        ],
        given=(8.54,),
        namespace={"trained": 90_882, "frozen": 1_741_568, "MiB": memory.MiB},
    ),
}
