"""Answers to lesson 4, right and wrong, and the words that each wrong one must get."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy
import torch
from sklearn.metrics import accuracy_score, f1_score
from torch.nn.functional import cross_entropy

from helpers import metrics
from tests.answers import Proof


def with_sklearn(predicted):
    logits, labels = predicted
    chosen = (logits[:, 1] > logits[:, 0]).astype(int)
    return {"accuracy": accuracy_score(labels, chosen), "f1": f1_score(labels, chosen)}


def with_tensors(predicted):
    chosen = torch.tensor(predicted.predictions).softmax(-1).argmax(-1)
    labels = torch.tensor(predicted.label_ids)
    both = (chosen & labels).sum()
    return {
        "eval_accuracy": (chosen == labels).float().mean(),
        "eval_f1": 2 * both / (chosen.sum() + labels.sum()),
    }


def scored(choose, **options):
    """A compute_metrics that chooses classes so, and takes F1 with these options."""

    def compute(predicted):
        chosen, labels = choose(predicted.predictions), predicted.label_ids
        f1 = f1_score(labels, chosen, **options)
        return {"accuracy": accuracy_score(labels, chosen), "f1": f1}

    return compute


def larger(logits):
    return logits.argmax(-1)


def accuracy_alone(predicted):
    return {"accuracy": (larger(predicted.predictions) == predicted.label_ids).mean()}


def in_per_cent(predicted):
    return {name: 100 * value for name, value in with_sklearn(predicted).items()}


def not_returned(predicted):
    with_sklearn(predicted)


def raw_logits(predicted):
    return metrics.accuracy_f1().compute(
        predictions=predicted.predictions, references=predicted.label_ids
    )


def by_log_probabilities(outputs, labels, num_items_in_batch=None):
    kept = labels != -100
    chosen = outputs[0].log_softmax(-1)[kept].gather(1, labels[kept][:, None])
    return -chosen.sum() / num_items_in_batch


def rows_divided_first(outputs, labels, num_items_in_batch):
    each = cross_entropy(outputs["logits"], labels, reduction="none")
    return (each / num_items_in_batch).sum()


def own_mean(outputs, labels, num_items_in_batch=None):
    return cross_entropy(outputs.logits, labels)


def twice(outputs, labels, num_items_in_batch=None):
    return cross_entropy(outputs.logits, labels) / num_items_in_batch


def summed(outputs, labels, num_items_in_batch=None):
    return cross_entropy(outputs.logits, labels, reduction="sum")


def by_own_rows(outputs, labels, num_items_in_batch=None):
    kept = max(1, len(labels))
    return cross_entropy(outputs.logits, labels, reduction="sum") / kept


def ignored_counted(outputs, labels, num_items_in_batch=None):
    other = labels.clamp(min=0)
    return cross_entropy(outputs.logits, other, reduction="sum") / num_items_in_batch


def a_loss_a_row(outputs, labels, num_items_in_batch=None):
    return cross_entropy(outputs.logits, labels, reduction="none") / num_items_in_batch


def the_models_own(outputs, labels, num_items_in_batch=None):
    return outputs.loss


def a_float(outputs, labels, num_items_in_batch=None):
    return summed(outputs, labels).detach() / num_items_in_batch


def count_renamed(outputs, labels, items):
    return summed(outputs, labels) / items


def named(rows, steps):
    return {"per_device_train_batch_size": rows, "gradient_accumulation_steps": steps}


def going_down(effective_batch, most_rows):
    rows = min(effective_batch, most_rows)
    while effective_batch % rows:
        rows -= 1
    return rows, effective_batch // rows


def going_up(effective_batch, most_rows):
    steps = math.ceil(effective_batch / most_rows)
    while effective_batch % steps:
        steps += 1
    return named(torch.tensor(effective_batch // steps), numpy.int64(steps))


def fitted(rows, steps):
    """An answer that takes both from (effective batch, rows that fit)."""
    return lambda effective, most: named(rows(effective, most), steps(effective, most))


PROOFS = {
    "4.1": Proof(
        right=[with_sklearn, with_tensors],
        wrong=[
            (scored(larger, average="macro"), "averaged over both classes"),
            (scored(larger, average="micro"), "which is the accuracy"),
            (scored(larger, pos_label=0), "F1 of class 0"),
            (scored(lambda x: x.argmin(-1)), "smaller logit"),
            (scored(lambda x: (x[:, 1] > 0).astype(int)), "larger of the two logits"),
            (scored(larger, average="weighted"), "is right here"),
            (accuracy_alone, 'has no "f1"'),
            (in_per_cent, "in per cent"),
            (not_returned, "wants a dictionary"),
            (raw_logits, "Your code stopped"),
        ],
        namespace=lambda: {"metric": metrics.accuracy_f1()},
    ),
    "4.2": Proof(
        right=[192.0, torch.tensor(192)],
        wrong=[
            (765, "number of micro-batches; an update"),
            (255, "micro-batches in one epoch"),
            (189, "left out the short last window of each"),
            (64, "there are three"),
            (200, "Not quite"),
        ],
        given=(192,),
        namespace={"math": math},
    ),
    "4.3": Proof(
        right=[8.0, numpy.int64(8)],
        wrong=[
            (4, "of another run"),
            (8.04, "Round"),
            (5.57, "logged loss itself"),
            (2, "Divide the first loss"),
        ],
    ),
    "4.6": Proof(
        right=[by_log_probabilities, rows_divided_first],
        wrong=[
            (own_mean, "nothing divides the sum of them"),
            (twice, "divided twice"),
            (summed, "The losses are summed"),
            (by_own_rows, "divided by the rows of the micro-batch"),
            (ignored_counted, "Held against the reference"),
            (a_loss_a_row, "one loss a row"),
            (the_models_own, "outputs.loss is None"),
            (a_float, "lost its graph"),
            (count_renamed, "TypeError"),
        ],
        namespace={"torch": torch, "cross_entropy": cross_entropy},
    ),
    "4.7": Proof(
        right=[going_down, going_up],
        wrong=[
            (fitted(lambda e, m: m, lambda e, m: e // m), "is 24"),
            (fitted(lambda e, m: m, lambda e, m: math.ceil(e / m)), "is 36"),
            (fitted(lambda e, m: m, lambda e, m: e / m), "have to be whole"),
            (fitted(lambda e, m: 1, lambda e, m: e), "slower than need be"),
            (fitted(lambda e, m: e, lambda e, m: 1), "32 rows do not fit"),
            (lambda e, m: going_down(e, m)[::-1], "the wrong way round"),
            (lambda e, m: {"train_batch_size": m}, "The dictionary has no"),
            (lambda e, m: m, "is wanted, or the two"),
        ],
    ),
    "4.8": Proof(
        right=["C", " c) "],
        wrong=[
            ("a", "Look at the residuals"),
            ("b", "same number of targets"),
            ("d", "two full windows"),
            ("BatchNorm", "one of the letters"),
        ],
        namespace=lambda: {
            "equivalence": SimpleNamespace(audit=lambda _: SimpleNamespace(cause="")),
            "mystery": None,
        },
    ),
}
