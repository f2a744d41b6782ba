"""Answers to lesson 2, right and wrong, and the words that each wrong one must get."""

from __future__ import annotations

import math
from types import SimpleNamespace

import torch
from torch.nn.utils import clip_grad_norm_

from helpers import memory, training
from tests.answers import Proof

PLACE = {"torch": torch, "training": training, "device": torch.device("cpu")}


def forgets(loss, accumulation_steps):
    loss / accumulation_steps


def own_loss_window(model, window):
    targets = sum(int((batch["labels"] != -100).sum()) for batch in window)
    for batch in window:
        labels = batch["labels"]
        logits = model(**batch).logits
        torch.nn.functional.cross_entropy(logits, labels, reduction="sum").div(
            targets
        ).backward()


def window_scaled_afterwards(model, window):
    targets = 0
    for batch in window:
        count = (batch["labels"] != -100).sum().item()
        (model(**batch).loss * count).backward()
        targets += count
    for p in model.parameters():
        p.grad /= targets


def mean_of_means(model, window):
    for batch in window:
        (model(**batch).loss / len(window)).backward()


def undivided(model, window):
    for batch in window:
        model(**batch).loss.backward()


def sums_undivided(model, window):
    for batch in window:
        (model(**batch).loss * (batch["labels"] != -100).sum()).backward()


def by_rows(model, window):
    rows = sum(len(batch["labels"]) for batch in window)
    for batch in window:
        (model(**batch).loss * len(batch["labels"]) / rows).backward()


def only_the_last(model, window):
    counts = [(batch["labels"] != -100).sum() for batch in window]
    for batch, count in zip(window, counts, strict=True):
        model.zero_grad()
        (model(**batch).loss * count / sum(counts)).backward()


def all_at_once(model, window):
    counts = [(batch["labels"] != -100).sum() for batch in window]
    losses = [model(**b).loss * c for b, c in zip(window, counts, strict=True)]
    (sum(losses) / sum(counts)).backward()


def no_backward(model, window):
    return [model(**batch).loss for batch in window]


def stepping(order):
    def after(optimizer, scheduler):
        for name in order:
            {
                "step": optimizer.step,
                "plan": scheduler.step,
                "zero": optimizer.zero_grad,
            }[name]()

    return after


def zero_by_hand(optimizer, scheduler):
    optimizer.step()
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = torch.zeros_like(p)
    scheduler.step()


def loop(fault=""):
    """An own loop with one fault, named as people make them."""

    def own(model, loader, optimizer, scheduler, accumulation_steps, max_norm):
        loader = list(loader)
        for i, batch in enumerate(loader):
            k = accumulation_steps
            start = i // k * k
            window = loader[start : start + k]
            rows = sum(len(b["labels"]) for b in window)
            if fault == "zeroed":
                optimizer.zero_grad()
            loss = model(**batch).loss
            if fault in ("textbook", "repaired"):
                loss = loss / k
            elif fault == "mean of means":
                loss = loss / len(window)
            elif fault != "undivided":
                loss = loss * len(batch["labels"]) / rows
            loss.backward()
            if fault == "clipped each time":
                clip_grad_norm_(model.parameters(), max_norm)
            if fault == "scheduled each time":
                scheduler.step()
            last = i + 1 == len(loader) and fault != "textbook"
            if (i + 1) % k == 0 or last:
                if fault != "not clipped":
                    clip_grad_norm_(model.parameters(), max_norm)
                if fault == "scheduled first":
                    scheduler.step()
                optimizer.step()
                if fault not in ("scheduled first", "scheduled each time"):
                    scheduler.step()
                if fault != "not zeroed":
                    optimizer.zero_grad()

    return own


def loop_of_windows(model, loader, optimizer, scheduler, accumulation_steps, max_norm):
    window = []
    for batch in [*loader, None]:
        if window and (batch is None or len(window) == accumulation_steps):
            window_scaled_afterwards(model, window)
            norm = math.sqrt(sum(p.grad.square().sum() for p in model.parameters()))
            for p in model.parameters():
                p.grad *= min(1.0, max_norm / norm)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            window = []
        window.append(batch)


PROOFS = {
    "2.1": Proof(
        right=[
            lambda loss, accumulation_steps: loss.mul(1 / accumulation_steps),
            lambda loss, k: loss.div_(k),
        ],
        wrong=[
            (lambda loss, k: loss, "undivided"),
            (lambda loss, k: loss * k, "multiplied"),
            (lambda loss, k: loss.item() / k, "lost its graph"),
            (lambda loss, k: loss / k / k, "I expected"),
            (forgets, "`return`"),
            (lambda loss: loss, "TypeError"),
        ],
    ),
    "2.2": Proof(
        right=[
            lambda i, k: i % k == k - 1,
            lambda i, k: not (i + 1) % k,
            lambda i, k: torch.tensor((i + 1) // k > i // k),
        ],
        wrong=[
            (lambda i, k: i % k == 0, "after a single micro-batch"),
            (lambda i, k: (i + 1) % k, "a remainder of 0"),
            (lambda i, k: (i - 1) % k == 0, "has to come at"),
            (lambda i, k: True, "yours comes at"),
        ],
    ),
    "2.3": Proof(
        right=[stepping(["step", "zero", "plan"]), zero_by_hand],
        wrong=[
            (stepping(["zero", "step", "plan"]), "zeroed before"),
            (stepping(["plan", "step", "zero"]), "scheduler came first"),
            (stepping(["step", "zero"]), "one an update"),
            (stepping(["step", "plan"]), "still there"),
            (stepping(["plan", "zero"]), "made no step"),
            (stepping(["step", "step", "plan", "zero"]), "stepped 2 times"),
        ],
    ),
    "2.4": Proof(
        right=[2.0, torch.tensor(2)],
        wrong=[(3, "one less"), (10, "number of micro-batches"), (4, "It made 2.")],
        given=(2,),
    ),
    "2.5": Proof(
        right=[
            lambda i, n, k: len(range(n)[i // k * k :][:k]),
            lambda i, n, k: k if i < n - n % k else n % k,
        ],
        wrong=[
            (lambda i, n, k: k, "the last window has only"),
            (lambda i, n, k: min(k, n - i), "shrinks inside"),
            (lambda i, n, k: n % k, "I expected"),
        ],
    ),
    "2.6": Proof(
        right=[own_loss_window, window_scaled_afterwards],
        wrong=[
            (mean_of_means, "mean of the micro-batches' means"),
            (undivided, "The means are added"),
            (sums_undivided, "The sums are added"),
            (by_rows, "You counted rows"),
            (only_the_last, "Only the last micro-batch"),
            (all_at_once, "held in memory at once"),
            (no_backward, "did you call backward"),
        ],
        namespace=PLACE,
    ),
    "2.7": Proof(
        right=[
            lambda n, b, k, e: math.ceil(math.ceil(n / b) / k) * e,
            lambda n, b, k, e: math.ceil(n / (b * k)) * e,
        ],
        wrong=[
            (lambda n, b, k, e: n // (b * k) * e, "drop the short last window"),
            (lambda n, b, k, e: math.ceil(n / b) * e, "number of micro-batches"),
            (lambda n, b, k, e: math.ceil(n * e / (b * k)), "into the next epoch"),
            (lambda n, b, k, e: math.ceil(n / (b * k)), "into the next epoch"),
            (lambda n, b, k, e: n * e, "updates are made, you say"),
        ],
    ),
    "2.11": Proof(
        right=[3, 2.9],
        wrong=[(1.9, "too low"), (17, "too high. The activations shrink")],
        given=(3.0,),
        namespace=lambda: {
            "memory": memory,
            "floor": memory.MiB,
            "large_meter": SimpleNamespace(peak=17 * memory.MiB),
        },
    ),
    "2.9": Proof(
        right=[loop(), loop_of_windows],
        wrong=[
            (loop("textbook"), "never applied"),
            (loop("repaired"), "it is divided by"),
            (loop("mean of means"), "mean of means is not"),
            (loop("undivided"), "nothing divides"),
            (loop("zeroed"), "Only the last micro-batch"),
            (loop("not zeroed"), "empty when a window starts"),
            (loop("clipped each time"), "clip once"),
            (loop("not clipped"), "is not clipped"),
            (loop("scheduled each time"), "the scheduler made"),
            (loop("scheduled first"), "the first rate is lost"),
        ],
        namespace=lambda: {
            **PLACE,
            "clip_grad_norm_": clip_grad_norm_,
            "window_gradient": own_loss_window,
        },
    ),
}
