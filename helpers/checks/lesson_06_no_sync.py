"""Exercise 6.3 of lesson 6: one exchange a window, with `no_sync` in its place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

from ..equivalence import compare, reference
from ..exercises import Exercise, Wrong, call, copied
from .probe import Output, Probe, micro_batches

LESSON = "06_several_processes"
TOLERANCE = 1e-9


class OneProcess(nn.Module):
    """DDP as a learner meets it, on one process: it notes which backward exchanges.

    As in DDP, the forward decides whether the backward that follows will exchange, by
    `require_backward_grad_sync`, which `no_sync` sets to False.

    Attributes:
        exchanged: for each micro-batch in the order of the backward passes.
    """

    def __init__(self, module: Probe) -> None:
        super().__init__()
        self.module = module
        self.require_backward_grad_sync = True
        self.exchanged: list[bool] = []

    def forward(self, *args, **named) -> Output:
        output = self.module(*args, **named)
        exchange = self.require_backward_grad_sync
        if output.logits.requires_grad and torch.is_grad_enabled():
            output.logits.register_hook(lambda _: self.exchanged.append(exchange))
        return output

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before


def _held_back(answer) -> str:
    for seed, k in ((71, 4), (72, 1), (73, 3)):
        batches = micro_batches([2] * k, seed)
        model = OneProcess(Probe(seed))
        wanted = reference(model.module, batches)
        call(answer, model, copied(batches))
        if all(p.grad is None for p in model.parameters()):
            raise Wrong("There is no gradient in .grad: did you call backward?", hint=1)
        _name_the_exchanges(model, k)
        found = compare(model.module, wanted)
        if found.relative_error > TOLERANCE:
            raise Wrong(_why(found, k), hint=1)
        if not model.require_backward_grad_sync:
            raise Wrong(
                "The exchange is still off when the window is over, so the next one "
                "would not exchange either.",
                hint=1,
            )
        if model.module.most_open > 1:
            raise Wrong(
                f"{model.module.most_open} micro-batches were held in memory at once. "
                "Call backward inside the loop.",
                hint=1,
            )
    return "One exchange, in the last backward, and it takes the sum of all with it."


def _name_the_exchanges(model: OneProcess, k: int) -> None:
    seen, times = model.exchanged, sum(model.exchanged)
    if len(seen) != k:
        raise Wrong(f"{k} micro-batches came, and {len(seen)} had a backward.", hint=1)
    if seen == [False] * (k - 1) + [True]:
        return
    if times == 0:
        raise Wrong(
            "Nothing is exchanged at all: the last micro-batch is in `no_sync` too. "
            "Each process would go its own way.",
            hint=1,
        )
    if times == k:
        raise Wrong(
            f"All {k} backward passes exchange. The forward pass decides, so it has to "
            "be inside of `no_sync` as well.",
            hint=0,
        )
    if times == 1:
        place = seen.index(True) + 1
        raise Wrong(
            f"Micro-batch {place} of {k} exchanges, and the last one does not: what "
            "comes after it stays in its own process.",
            hint=1,
        )
    raise Wrong(f"{times} of {k} backward passes exchange; the last is enough.", hint=1)


def _why(found, k: int) -> str:
    if found.residual < TOLERANCE and abs(found.ratio - k) < TOLERANCE * k:
        return (
            "One exchange, but the gradient is the sum of the means: divide each loss "
            "by len(window)."
        )
    if found.residual < TOLERANCE and abs(found.ratio * k - 1) < TOLERANCE * k:
        return "One exchange, but the gradient is divided by len(window) twice."
    return f"One exchange, but the gradient is not the window's: {found}."


held_back = Exercise(
    "6.3",
    "held_back",
    _held_back,
    hints=[
        "For every micro-batch but the last, forward and backward both belong inside "
        "of `with model.no_sync():`.",
        "for batch in window[:-1]: with model.no_sync(): "
        "(model(**batch).loss / len(window)).backward(); and then the same for "
        "window[-1] without no_sync.",
    ],
    lesson=LESSON,
)
