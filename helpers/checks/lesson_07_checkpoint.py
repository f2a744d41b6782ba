"""Exercise 7.4 of lesson 7: a stack of layers with gradient checkpointing."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from ..exercises import Exercise, Wrong, call, close, copied

LESSON = "07_below_the_floor"
TOLERANCE = 1e-12
SAVED = 0.4  # of the activations' peak at most; one layer at a time leaves a third


class _Layer(nn.Module):
    """Keeps much inside for the backward pass, and little at its edge."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide = nn.Linear(width, 8 * width)
        self.narrow = nn.Linear(8 * width, width)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x + self.narrow(self.wide(x).tanh().sin().tanh())


def _through(answer) -> str:
    for seed, (count, width, rows, watched) in enumerate(
        ((6, 4, 64, True), (5, 6, 48, False)), 1
    ):
        layers, x = _stack(seed, count, width, rows, watched)
        own = copied(layers), x.detach().clone().requires_grad_(watched)
        plain, plain_peak = _run(lambda stack, x: _plainly(stack, x), layers, x)
        found, peak = _run(lambda stack, x: _asked(answer, stack, x), *own)
        _same(found, plain, *own, layers, x)
        _leaner(peak, plain_peak, [layer.calls for layer in own[0]])
    return (
        f"The same output and the same gradients, with {peak / plain_peak:.0%} of the "
        f"activations, and {_computed([layer.calls for layer in own[0]])}."
    )


def _computed(calls: list[int]) -> str:
    if min(calls[:-1]) > 1 == calls[-1]:
        # As checkpoint_sequential does it.
        return (
            "every layer computed twice but the last; its activations are wanted at "
            "once, so that costs no memory"
        )
    return "every layer computed twice"


def _stack(seed: int, count: int, width: int, rows: int, watched: bool):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = nn.ModuleList(_Layer(width) for _ in range(count)).double()
        x = torch.randn(rows, width, dtype=torch.float64)
    return layers, x.requires_grad_(watched)


def _plainly(layers, x: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x)
    return x


def _asked(answer, layers, x: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's on use_reentrant; we say it below
        found = call(answer, layers, x)
    if not isinstance(found, Tensor):
        raise Wrong(
            "The output of the last layer is wanted, and this is "
            f"{type(found).__name__}. Is a `return` missing?",
            hint=1,
        )
    if found.shape != x.shape:
        raise Wrong(
            f"The output should have the shape {tuple(x.shape)}, and yours has "
            f"{tuple(found.shape)}.",
            hint=1,
        )
    if not found.requires_grad:
        raise Wrong(
            "Your output has lost its graph, so no weight gets a gradient. Use "
            "checkpoint with use_reentrant=False, outside of torch.no_grad().",
            hint=1,
        )
    return found


def _run(forward, layers: nn.ModuleList, x: Tensor) -> tuple[Tensor, int]:
    """The output and the most bytes of activations, forward and backward."""
    from helpers import memory

    with memory.Meter(layers) as meter:
        out = forward(layers, x)
        (out.square().sum() / len(out)).backward()
    return out.detach(), max(meter.timeline_by_kind["activations"])


def _same(found, plain, layers, x, plain_layers, plain_x) -> None:
    if not close(found, plain, TOLERANCE):
        raise Wrong(
            "The output is another one than without checkpointing. Each layer takes "
            "what the one before it gave, and every layer has its turn once.",
            hint=0,
        )
    pairs = [
        (x, plain_x),
        *zip(layers.parameters(), plain_layers.parameters(), strict=True),
    ]
    for mine, wanted in pairs:
        if wanted.grad is None:
            continue
        if mine.grad is None or not close(mine.grad, wanted.grad, TOLERANCE):
            raise Wrong(
                "The output is right, and the gradients are not those without "
                "checkpointing. Did you detach something on the way?",
                hint=1,
            )


def _leaner(peak: int, plain_peak: int, calls: list[int]) -> None:
    if peak <= SAVED * plain_peak:
        return
    if max(calls) == 1:
        raise Wrong(
            "Output and gradients are right, but every layer ran once: nothing is "
            "checkpointed, and all activations were kept.",
            hint=0,
        )
    if min(calls) == 1:
        raise Wrong(
            f"Layers ran so often: {calls}. Those that ran once kept their "
            "activations; checkpoint all of them.",
            hint=1,
        )
    if peak > 0.9 * plain_peak:
        raise Wrong(
            "Every layer is computed again, but all of them at once, so the peak is as "
            "high as before. Give checkpoint one layer at a time.",
            hint=1,
        )
    raise Wrong(
        f"Every layer is computed again, but several at once: {peak / plain_peak:.0%} "
        "of the activations are alive together. Give checkpoint one layer at a time.",
        hint=1,
    )


through = Exercise(
    "7.4",
    "through",
    _through,
    hints=[
        "Without checkpointing it would be a loop with x = layer(x). Which call takes "
        "the place of layer(x)?",
        "In the loop: x = checkpoint(layer, x, use_reentrant=False). After it, "
        "return x.",
    ],
    lesson=LESSON,
)
