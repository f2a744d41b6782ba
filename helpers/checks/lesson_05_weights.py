"""Exercise 5.3 of lesson 5: what a target counts for in a mean of means."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ..exercises import Exercise, Wrong, call, close

LESSON = "05_unequal_micro_batches"
CASES = ([10, 30], [12, 40, 25, 63], [7, 7, 7])


def _weights(answer) -> str:
    for counts in CASES:
        found = call(answer, list(counts))
        if isinstance(found, Iterator):  # a map or the like is worked out only here
            found = call(_listed, found)
        if found is None:
            raise Wrong("Nothing came back. Is a `return` missing?", hint=1)
        wanted = [sum(counts) / (len(counts) * n) for n in counts]
        if close(found, wanted, 1e-6):
            continue
        raise Wrong(_why(found, counts), hint=1)
    return (
        "All targets, over k times its own: the fewer there are, the more each counts."
    )


def _listed(numbers: Iterator) -> list:
    return list(islice(numbers, 1 + max(map(len, CASES))))


def _why(found, counts: list[int]) -> str:
    total, k = sum(counts), len(counts)
    known = {
        "That is upside down: the fewer targets a micro-batch has, the more each of "
        "them counts.": [k * n / total for n in counts],
        "That is the weight in the mean of means. Divide it by the weight that a "
        "target should have, one over all targets.": [1 / (k * n) for n in counts],
        "That is the share of the micro-batch in all targets, its right weight. Asked "
        "is how many times too much each target counts.": [n / total for n in counts],
        "The k is missing: the mean of k means divides by k.": [
            total / n for n in counts
        ],
        "A micro-batch's mean divides by its own number of targets, which is missing "
        "here.": [total / k for n in counts],
        "That is the weight within its own micro-batch. The mean of the means divides "
        "by k as well, and you should hold it against one over all targets.": [
            1 / n for n in counts
        ],
    }
    for words, wrong in known.items():
        if close(found, wrong, 1e-6):
            return words
    if hasattr(found, "__len__") and len(found) != k:
        return f"{k} micro-batches want {k} numbers, one each; {len(found)} came."
    return f"For {counts} targets the first number should be {total / k / counts[0]:g}."


weights = Exercise(
    "5.3",
    "weights",
    _weights,
    hints=[
        "In the mean of k means, a target of a micro-batch with n of them has the "
        "weight 1 / (k × n). In the mean over all N targets it has 1 / N.",
        "[sum(counts) / (len(counts) * n) for n in counts]",
    ],
    lesson=LESSON,
)
