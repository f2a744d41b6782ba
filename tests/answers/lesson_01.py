"""Answers to lesson 1, right and wrong, and the words that each wrong one must get."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from helpers import memory
from tests.answers import Proof

# 20 MiB of activations for 16 rows, and 12 MiB that do not depend on the rows.
AT_16 = {"parameters": 4 * memory.MiB, "activations": 20 * memory.MiB}
METER = SimpleNamespace(peak=32 * memory.MiB, at_peak=AT_16)


def spread_by_norm(gradients, full):
    return float(sum(torch.dist(g, full) ** 2 for g in gradients) / len(gradients))


def spread_in_place(gradients, full):
    gradients -= full
    return torch.einsum("dw,dw->d", gradients, gradients).mean()


def floor_in_steps(weights, bytes_each=4):
    total = 0
    for _kind in ("weights", "gradients", "first moment", "second moment"):
        total += weights * bytes_each
    return torch.tensor(total)


def fits_by_recursion(step, sizes):
    try:
        step(sizes[0])
    except torch.cuda.OutOfMemoryError:
        return fits_by_recursion(step, sizes[1:])
    return sizes[0]


def fits_swallowing(step, sizes):
    for size in sizes:
        try:
            step(size)
            return size
        except Exception:
            pass


def fits_smallest(step, sizes):
    best = None
    for size in sizes:
        try:
            step(size)
            best = size
        except torch.OutOfMemoryError:
            continue
    return best


def fits_uncaught(step, sizes):
    for size in sizes:
        step(size)
        return size


def fits_from_below(step, sizes):
    best = None
    for size in sorted(sizes):
        try:
            step(size)
            best = size
        except torch.OutOfMemoryError:
            break
    return best


def fits_forgets(step, sizes):
    for size in sizes:
        try:
            step(size)
        except torch.OutOfMemoryError:
            continue


PROOFS = {
    "1.1": Proof(
        right=[spread_by_norm, spread_in_place],
        wrong=[
            (lambda g, f: ((g - f) ** 2).mean(), "averaged over the weights too"),
            (lambda g, f: (g - f).norm(dim=1).mean(), "mean distance"),
            (lambda g, f: ((g - f) ** 2).sum(), "sum over the batches"),
            (lambda g, f: ((g.mean(0) - f) ** 2).sum(), "errors cancelled"),
            (lambda g, f: (g**2).sum(1).mean(), "Subtract the full gradient"),
            (lambda g, f: (g - f).var(), "I expected"),
            (lambda g, f: g - f, "One number is wanted"),
        ],
    ),
    "1.2": Proof(
        right=[4.0, torch.tensor(4)],
        wrong=[(2, "halve the spread"), (16, "not halved"), (1.414, "1.414 times")],
    ),
    "1.3": Proof(
        right=[floor_in_steps, lambda weights, bytes_each=4: 4 * weights * bytes_each],
        wrong=[
            (lambda weights, bytes_each=4: 4 * weights, "numbers, not bytes"),
            (lambda weights, bytes_each=4: weights * bytes_each, "parameters alone"),
            (lambda weights, bytes_each=4: 2 * weights * bytes_each, "AdamW's state"),
            (lambda weights, bytes_each=4: 3 * weights * bytes_each, "One kind"),
            (lambda weights, bytes_each=4: 5 * weights * bytes_each, "I expected"),
            (lambda weights, bytes_each=2: 4 * weights * bytes_each, "as in float32"),
        ],
    ),
    "1.4": Proof(
        right=[92, 95.0],
        wrong=[
            (32, "too low"),
            (128, "too high. Weights and optimizer state do not grow"),
        ],
        given=(92,),
        namespace={"memory": memory, "meters": {16: METER}},
    ),
    "1.5": Proof(
        right=[fits_by_recursion],
        wrong=[
            (fits_swallowing, "swallowed an error"),
            (fits_smallest, "go on to the smallest"),
            (fits_uncaught, "OutOfMemoryError"),
            (fits_from_below, "start with the largest"),
            (fits_forgets, "`return`"),
        ],
    ),
}
