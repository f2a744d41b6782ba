"""Answers to lesson 5, right and wrong, and the words that each wrong one must get."""

from __future__ import annotations

import numpy
import torch
from accelerate import PartialState
from torch.nn.functional import cross_entropy

from helpers import runtime, texts
from tests.answers import Proof

IGNORED = -100
K = "gradient_accumulation_steps"


def kept(batch):
    return batch["labels"] != IGNORED


def by_rows(batch):
    return sum(int((row[1:] != IGNORED).sum()) for row in batch["labels"])


def from_the_loss(batch):
    first = torch.zeros_like(batch["labels"], dtype=torch.bool)
    first[:, 0] = True
    return (kept(batch) & ~first).sum()


def first_written_over(batch):
    batch["labels"][:, 0] = IGNORED
    return int(kept(batch).sum())


def first_masked_in_a_copy(batch):
    labels = batch["labels"].clone()
    labels[:, 0] = IGNORED
    return int((labels != IGNORED).sum())


def inverse_means(counts):
    counts = torch.tensor(counts)
    return counts.double().mean() / counts


def as_array(counts):
    counts = numpy.array(counts)
    return (1 / (len(counts) * counts)) / (1 / counts.sum())


def mapped(counts):
    return map(lambda count: sum(counts) / len(counts) / count, counts)


def generated(counts):
    return (sum(counts) / (len(counts) * count) for count in counts)


def stops_in_a_map(counts):
    return map(lambda count: count.mean(), counts)


def one_number(counts):
    return sum(counts) / len(counts) / counts[0]


def only_two(counts):
    return inverse_means(counts)[:1]


def not_returned(counts):
    inverse_means(counts)


def in_tensors(model, window):
    counts = [(batch["labels"][:, 1:] != IGNORED).sum() for batch in window]
    for batch, count in zip(window, counts, strict=True):
        (model(**batch).loss * (count / sum(counts))).backward()


def windowed(weight, counter=texts.count_targets):
    """An answer to 5.5 that weights each mean loss by (own, all of them, place)."""

    def window_gradient(model, window):
        counts = [counter(batch) for batch in window]
        for place, batch in enumerate(window):
            loss = model(**batch.to(runtime.device())).loss
            (loss * weight(counts[place], counts)).backward()

    return window_gradient


def from_logits(model, window):
    number = sum(texts.count_targets(batch) for batch in window)
    for batch in window:
        logits = model(**batch.to(runtime.device())).logits[:, :-1]
        labels = batch["labels"][:, 1:].to(logits.device)
        total = cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
        total.div(number).backward()


def counted_by_the_model(model, window):
    number = sum(texts.count_targets(batch) for batch in window)
    for batch in window:
        model(**batch, num_items_in_batch=number).loss.backward()


def looks_first(model, window):
    number = sum(texts.count_targets(batch) for batch in window)
    with torch.no_grad():
        for batch in window:
            model(**batch)
    for batch in window:
        (model(**batch).loss * texts.count_targets(batch) / number).backward()


def gradients_divided_after(model, window):
    number = 0
    for batch in window:
        count = texts.count_targets(batch)
        (model(**batch).loss * count).backward()
        number += count
    for parameter in model.parameters():
        parameter.grad /= number


def one_backward(model, window):
    counts = [texts.count_targets(batch) for batch in window]
    losses = [model(**batch).loss for batch in window]
    total = sum(loss * n for loss, n in zip(losses, counts, strict=True))
    (total / sum(counts)).backward()


def only_the_last(model, window):
    number = sum(texts.count_targets(batch) for batch in window)
    for batch in window:
        model.zero_grad()
        (model(**batch).loss * texts.count_targets(batch) / number).backward()


def two_counts(model, window):
    number = sum(int(kept(batch).sum()) for batch in window)
    for batch in window:
        (model(**batch).loss * texts.count_targets(batch) / number).backward()


def no_backward(model, window):
    return [model(**batch).loss for batch in window]


def undivided_later(accelerator, loss, count, window_count):
    steps = accelerator.gradient_accumulation_steps
    return steps * accelerator.num_processes * (count / window_count) * loss


def state_asked(accelerator, loss, count, window_count):
    steps, state = accelerator.gradient_accumulation_steps, accelerator.state
    return loss * count * steps * state.num_processes / window_count


def partial_state_asked(accelerator, loss, count, window_count):
    processes = PartialState().num_processes
    return loss * count * processes * getattr(accelerator, K) / window_count


def multiplied_first(accelerator, loss, count, window_count):
    total = count * loss
    for factor in (accelerator.num_processes, accelerator.gradient_accumulation_steps):
        total = factor * total
    return total / window_count


def shared(factor):
    """An answer to 5.6: the loss times a factor of (k, own and the window's count)."""

    def share(accelerator, loss, count, window_count):
        return loss * factor(getattr(accelerator, K), count, window_count)

    return share


def lost_graph(accelerator, loss, count, window_count):
    return undivided_later(accelerator, loss.detach(), count, window_count)


def as_number(accelerator, loss, count, window_count):
    return undivided_later(accelerator, loss.item(), count, int(window_count))


def without_k(accelerator, loss, count, window_count):
    return loss * count / window_count * accelerator.num_processes


def masked_copy(batch):
    labels = batch["labels"].clone()
    labels[:, :1] = IGNORED
    return {**batch, "labels": labels}


def row_by_row(batch):
    for row in batch["labels"]:
        row[0] = IGNORED
    return batch


def changed(place, name="labels", value=IGNORED):
    """An answer to 5.7 that sets one place of one tensor."""

    def set_it(batch):
        batch[name][place] = value
        return batch

    return set_it


def nothing_back(batch):
    batch["labels"][:, 0] = IGNORED


def labels_back(batch):
    return masked_copy(batch)["labels"]


def column_gone(batch):
    return {**batch, "labels": batch["labels"][:, 1:]}


def mask_gone(batch):
    made = masked_copy(batch)
    del made["attention_mask"]
    return made


def mask_written(batch):
    batch["attention_mask"][:, 0] = 0
    return masked_copy(batch)


def labels_as_floats(batch):
    made = masked_copy(batch)
    return {**made, "labels": made["labels"].float()}


def unchanged(batch):
    return batch


EVERY = slice(None)
PROOFS = {
    "5.1": Proof(
        right=[numpy.float64(1.5), torch.tensor(12 / 8)],
        wrong=[
            (2, "mean of the two means"),
            (4, "sum of the two means"),
            (12, "sum of all losses"),
            (6, "over the number of micro-batches"),
            (2.5, "the other one's weight"),
            (1.7, "Not the mean of the eight"),
        ],
    ),
    "5.2": Proof(
        right=[by_rows, from_the_loss, first_masked_in_a_copy],
        wrong=[
            (lambda b: kept(b).sum(), "All labels were counted"),
            (lambda b: kept(b).sum() - len(b["labels"]), "one too many"),
            (lambda b: kept(b)[:, :-1].sum(), "it is the first that goes"),
            (lambda b: b["attention_mask"][:, 1:].sum(), "Tokens were counted"),
            (lambda b: b["labels"][:, 1:].numel(), "The padding was counted"),
            (lambda b: b["labels"].numel(), "the padding too"),
            (lambda b: (b["labels"][:, 1:] > 0).sum(), "The label 0 was left out"),
            (first_written_over, "the micro-batch has changed"),
            (lambda b: kept(b)[1:].sum(), "not 10"),
            (lambda b: (b["labels"][:, 1:] != IGNORED).float().mean(), "not 0."),
            (lambda b: b["labels"][:, 1:] != IGNORED, "One number is wanted"),
        ],
    ),
    "5.3": Proof(
        right=[inverse_means, as_array, mapped, generated],
        wrong=[
            (lambda c: [len(c) * n / sum(c) for n in c], "upside down"),
            (lambda c: [1 / (len(c) * n) for n in c], "the weight in the mean of"),
            (lambda c: [n / sum(c) for n in c], "the share of the micro-batch"),
            (lambda c: [sum(c) / n for n in c], "The k is missing"),
            (lambda c: [1 / n for n in c], "within its own micro-batch"),
            (lambda c: [sum(c) / len(c)] * len(c), "which is missing here"),
            (one_number, "the first number should be 2"),
            (stops_in_a_map, "stopped with AttributeError"),
            (only_two, "want 2 numbers, one each"),
            (not_returned, "Is a `return` missing"),
        ],
    ),
    "5.4": Proof(
        right=[24.4, 20],
        wrong=[
            (3.03, "too low. Each loss in the sum"),
            (80, "too high. It is one micro-batch"),
            (0, "above 0"),
        ],
        given=(24.5,),
        namespace={"alone": 3.03},
    ),
    "5.5": Proof(
        right=[
            from_logits,
            gradients_divided_after,
            in_tensors,
            counted_by_the_model,
            looks_first,
        ],
        wrong=[
            (windowed(lambda n, c: 1 / len(c)), "the mean of the means"),
            (
                windowed(lambda n, c: n / sum(c), lambda b: kept(b).sum()),
                "All labels were counted",
            ),
            (two_counts, "do not fit"),
            (windowed(lambda n, c: 1), "The means are added"),
            (windowed(lambda n, c: n), "The sums of the losses are added"),
            (windowed(lambda n, c: 1 / sum(c)), "a mean already"),
            (windowed(lambda n, c: n / sum(c) / len(c)), "micro-batches as well"),
            (
                windowed(lambda n, c: n / sum(c), lambda b: len(b["labels"])),
                "weighted by rows",
            ),
            (windowed(lambda n, c: -n / sum(c)), "Held against the reference"),
            (one_backward, "held in memory at once"),
            (only_the_last, "Only the last micro-batch"),
            (no_backward, "did you call backward"),
        ],
        namespace=lambda: {
            "torch": torch,
            "targets": texts.count_targets,
            "device": runtime.device(),
        },
    ),
    "5.6": Proof(
        right=[undivided_later, multiplied_first, state_asked, partial_state_asked],
        wrong=[
            (shared(lambda k, n, c: n / c * k), "On one process that is right"),
            (shared(lambda k, n, c: n / c), "multiply by both"),
            (shared(lambda k, n, c: n / c / k), "and you did too"),
            (shared(lambda k, n, c: 1), "as it is"),
            (shared(lambda k, n, c: n), "nothing divides it by the window"),
            (shared(lambda k, n, c: n * k), "The window's targets are not in it"),
            (shared(lambda k, n, c: k / c), "Times its own targets"),
            (shared(lambda k, n, c: 1 / c), "the processes are missing too"),
            (shared(lambda k, n, c: 7), "you hand over"),
            (without_k, "the accumulation steps are not"),
            (lost_graph, "lost its graph"),
            (as_number, "a tensor with one number"),
        ],
    ),
    "5.7": Proof(
        right=[masked_copy, row_by_row],
        wrong=[
            (changed(0), "the first row"),
            (changed((EVERY, -1)), "the last column"),
            (changed((EVERY, 0), "input_ids", 0), "input_ids have changed"),
            (changed((0, 0)), "in more or less than"),
            (changed((EVERY, 0), value=0), "value other than -100"),
            (nothing_back, "Return the micro-batch"),
            (labels_back, "whole micro-batch is wanted"),
            (column_gone, "another shape"),
            (mask_gone, "has lost its"),
            (mask_written, "attention_mask has changed"),
            (labels_as_floats, "have become torch.float32"),
            (unchanged, "as they were"),
        ],
    ),
    "5.8": Proof(
        right=[0.75, torch.tensor(0.7500001)],
        wrong=[
            (1, "the three that are left"),
            (0.25, "what is left"),
            (4 / 3, "too long a gradient"),
            (0, "do have a gradient"),
            (0.5, "by how many divided"),
        ],
        given=(0.75,),
    ),
}
