"""Answers to lesson 6, right and wrong, and the words that each wrong one must get."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import numpy
import torch

from tests.answers import Proof


def in_tensors(loss, rank, number, counts):
    everywhere = torch.tensor([n for own in counts for n in own]).sum()
    return len(counts) * (counts[rank][number] / everywhere) * loss


def mean_targets(loss, rank, number, counts):
    mean = sum(n for own in counts for n in own) / len(counts)
    return loss * counts[rank][number] / mean


def weighted(factor):
    """An answer to 6.2: the loss times a factor of (its targets, own, all, world)."""

    def share(loss, rank, number, counts):
        own = counts[rank]
        everywhere = sum(sum(each) for each in counts)
        return loss * factor(own[number], own, everywhere, len(counts))

    return share


def lost_graph(loss, rank, number, counts):
    return mean_targets(loss.detach(), rank, number, counts)


def as_number(loss, rank, number, counts):
    return mean_targets(loss.item(), rank, number, counts)


def two_loops(model, window):
    with model.no_sync():
        for batch in window[:-1]:
            model(**batch).loss.div(len(window)).backward()
    model(**window[-1]).loss.div(len(window)).backward()


def on_a_stack(model, window):
    with contextlib.ExitStack() as stack:
        stack.enter_context(model.no_sync())
        for place, batch in enumerate(window):
            if place + 1 == len(window):
                stack.close()
            (model(**batch).loss / len(window)).backward()


def by_the_flag(model, window):
    for place, batch in enumerate(window):
        model.require_backward_grad_sync = place == len(window) - 1
        (model(**batch).loss / len(window)).backward()


def plain(model, window):
    for batch in window:
        (model(**batch).loss / len(window)).backward()


def around_backward(model, window):
    for place, batch in enumerate(window, 1):
        loss = model(**batch).loss / len(window)
        last = place == len(window)
        with contextlib.nullcontext() if last else model.no_sync():
            loss.backward()


def around_all(model, window):
    with model.no_sync():
        plain(model, window)


def held(which, divide=len, after=None):
    """An answer to 6.3 that holds back the micro-batches that `which` tells."""

    def held_back(model, window):
        for place, batch in enumerate(window):
            off = which(place, len(window))
            with model.no_sync() if off else contextlib.nullcontext():
                (model(**batch).loss / divide(window)).backward()
        if after is not None:
            after(model)

    return held_back


def not_last(place, k):
    return place < k - 1


def left_off(model):
    model.require_backward_grad_sync = False


def only_the_last(model, window):
    with model.no_sync():
        for batch in window[:-1]:
            model(**batch)
    (model(**window[-1]).loss / len(window)).backward()


def cleared(model, window):
    with model.no_sync():
        plain(model, window[:-1])
    model.zero_grad()
    (model(**window[-1]).loss / len(window)).backward()


def no_backward(model, window):
    return [model(**batch).loss for batch in window]


def sums_kept(model, window):
    with model.no_sync():
        losses = [model(**batch).loss / len(window) for batch in window[:-1]]
    for loss in losses:
        loss.backward()
    (model(**window[-1]).loss / len(window)).backward()


def played(processes, size):
    sent = 0
    for _ in range(2):
        for _ in range(processes - 1):
            sent += size / processes
    return sent


def as_fraction(processes, size):
    return float(2 * size * (1 - Fraction(1, processes)))


FAILS, HANGS, PASSES = "fails", "hangs", "passes silently"


def said(ends, works_on, starts_anew):
    return {"ends": ends, "works on": works_on, "starts anew": starts_anew}


PROOFS = {
    "6.1": Proof(
        right=[numpy.int64(48), torch.tensor(48.0)],
        wrong=[
            (24, "the window of one process"),
            (16, "A window has three"),
            (8, "That is one micro-batch."),
            (6, "the number of micro-batches"),
            (3, "the accumulation steps"),
            (960, "all the rows there are"),
            (40, "Multiply micro-batch"),
            ("48 rows", "A number is wanted"),
        ],
        given=(48,),
    ),
    "6.2": Proof(
        right=[in_tensors, mean_targets],
        wrong=[
            (weighted(lambda n, own, e, w: n / e), "The world size is missing"),
            (weighted(lambda n, own, e, w: n / sum(own)), "of this process alone"),
            (weighted(lambda n, own, e, w: 1 / len(own) / w), "DDP divides by the"),
            (weighted(lambda n, own, e, w: 1 / len(own)), "the mean of means"),
            (weighted(lambda n, own, e, w: 1), "as it is, and nothing divides"),
            (weighted(lambda n, own, e, w: n * w), "The targets of all are not"),
            (weighted(lambda n, own, e, w: n), "the sum of the losses"),
            (weighted(lambda n, own, e, w: n / e / w), "DDP does so as well"),
            (weighted(lambda n, own, e, w: w / e), "A mean was divided by"),
            (weighted(lambda n, own, e, w: n * w / e + 0.1), "the relative error"),
            (lost_graph, "lost its graph"),
            (as_number, "a tensor with one number"),
        ],
    ),
    "6.3": Proof(
        right=[two_loops, on_a_stack, by_the_flag],
        wrong=[
            (plain, "All 4 backward passes exchange"),
            (around_all, "Nothing is exchanged at all"),
            (held(lambda place, k: place > 0), "Micro-batch 1 of 4 exchanges"),
            (held(lambda place, k: place < k - 2), "2 of 4 backward passes"),
            (held(not_last, lambda window: 1), "the sum of the means"),
            (held(not_last, lambda window: len(window) ** 2), "twice"),
            (held(not_last, after=left_off), "still off when the window is over"),
            (only_the_last, "and 1 had a backward"),
            (cleared, "is not the window's"),
            (no_backward, "did you call backward"),
            (sums_kept, "held in memory at once"),
        ],
        namespace={"torch": torch, "contextlib": contextlib},
    ),
    "6.4": Proof(
        right=[numpy.float64(4), torch.tensor(4)],
        wrong=[
            (1, "decided before `no_sync` begins"),
            (0, "at least"),
            (3, "it comes too late"),
            (8, "those are not two"),
            (2, "DDP decides in the forward pass"),
        ],
        given=(4,),
    ),
    "6.5": Proof(
        right=[2.0, torch.tensor(2)],
        wrong=[
            (1, "With k = 1 the accumulation steps do no harm"),
            (0.5, "a division too many"),
            (4, "both factors come in"),
            (3, "k times the processes"),
        ],
        given=(2.0000001,),
    ),
    "6.6": Proof(
        right=[(0.5, 0), numpy.array([0.5, 0.0]), torch.tensor([0.5, 0.0])],
        wrong=[
            ([0.75, 0.5], "one step an update"),
            ([1, 0.5], "were made with"),
            ([1, 0.75], "before each update"),
            ([0.5, 0.25], "The first is right"),
            ([0.75, 0.25], "twice after the"),
            ([0.9, 0.8], "How many steps has it made"),
            ([0.5], "Two rates are wanted"),
            (0.5, "Two numbers are wanted"),
        ],
        given=([0.5, 0.0],),
    ),
    "6.7": Proof(
        right=[said("Fails", "hangs.", " passes silently")],
        wrong=[
            (said(HANGS, HANGS, PASSES), "closes its connections"),
            (said(PASSES, HANGS, PASSES), "There is nobody left"),
            (said(FAILS, FAILS, PASSES), "nothing looks wrong"),
            (said(FAILS, PASSES, PASSES), "cannot end without"),
            (said(FAILS, HANGS, HANGS), "there is somebody"),
            (said(FAILS, HANGS, FAILS), "DDP cannot tell"),
            ({"ends": FAILS}, 'For "works on" answer with'),
            (said("crashes", HANGS, PASSES), 'For "ends" answer with'),
            ("fails", "A dict is wanted"),
        ],
    ),
    "6.8": Proof(
        right=[played, as_fraction],
        wrong=[
            (lambda p, size: (p - 1) / p * size, "That is the first round"),
            (lambda p, size: 2 * (p - 1) * size, "Each step sends one part"),
            (lambda p, size: (p - 1) * size, "its whole gradient"),
            (lambda p, size: 2 * size, "all parts but one"),
            (lambda p, size: 2 * size * (p + 1) / p, "not p + 1"),
            (lambda p, size: size, "the gradient once"),
            (lambda p, size: 2 * size / p, "How many steps has a round"),
            (lambda p, size: 7, "and you say 7."),
        ],
    ),
}
