"""Times several ways in turns, so that other programs disturb all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.utils.benchmark import Timer

from benchmarks.report import Spread

Seconds = dict[str, list[float]]


def in_turns(
    ways: dict[str, Callable[[], Callable[[], Any]]],
    rounds: int,
    *,
    number: int = 1,
    threads: int = 1,
) -> Seconds:
    """Seconds of one call of each way, round by round.

    Each round times every way by `torch.utils.benchmark.Timer.timeit`, which warms up
    by two calls and, on a GPU, waits for its work. The order turns from round to round.

    Args:
        ways: each makes what is not timed and gives the function that is.
        number: calls that are timed together.
        threads: that torch computes with.
    """
    timers = {
        name: Timer("run()", "run = prepare()", globals=made, num_threads=threads)
        for name, made in ((n, {"prepare": prepare}) for n, prepare in ways.items())
    }
    seconds: Seconds = {name: [] for name in ways}
    names = list(ways)
    for turn in range(rounds):
        shift = turn % len(names)
        order = names[shift:] + names[:shift]
        for name in order if turn % 2 == 0 else reversed(order):
            seconds[name].append(timers[name].timeit(number).median)
    return seconds


def ratio(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Spread of the ratios within each round."""
    return Spread.of([a / b for a, b in zip(above, below, strict=True)])
