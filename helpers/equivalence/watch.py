"""Look over a loop's shoulder: compare the gradient of each update it makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from .comparison import Comparison, compare
from .reference import reference

Batch = Mapping[str, Tensor]


@dataclass
class Watch:
    """The updates that a loop made, beside the windows that it should have made.

    Attributes:
        windows: number of windows that were to come.
        comparisons: one `Comparison` an update, in order; an update more than there
            are windows is compared with nothing and counted in `extra`.
        extra: updates beyond the last window.
    """

    windows: int
    comparisons: list[Comparison] = field(default_factory=list)
    extra: int = 0

    @property
    def ratios(self) -> list[float]:
        """The ratio of each update."""
        return [c.ratio for c in self.comparisons]

    @property
    def exact(self) -> bool:
        """Whether every window got one update, and each is the reference."""
        made = len(self.comparisons) == self.windows and not self.extra
        return made and all(c.exact for c in self.comparisons)

    def __str__(self) -> str:
        lines = [f"window {i}: {c}" for i, c in enumerate(self.comparisons, 1)]
        for missing in range(len(self.comparisons) + 1, self.windows + 1):
            lines.append(f"window {missing}: no update")
        if self.extra:
            lines.append(f"{self.extra} more updates than windows")
        return "\n".join(lines)

    __repr__ = __str__


@contextmanager
def watch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    windows: Iterable[Iterable[Batch]],
) -> Iterator[Watch]:
    """Compare `.grad` at each optimizer step with the reference of its window.

    Args:
        windows: for each update that should come, its micro-batches. The reference is
            taken with the weights of that moment.

    Raises:
        ValueError: from `reference`, for a window without a target.
    """
    coming = [list(window) for window in windows]
    seen = Watch(len(coming))
    pending = iter(coming)

    def look(*_: object) -> None:
        window = next(pending, None)
        if window is None:
            seen.extra += 1
        else:
            seen.comparisons.append(compare(model, reference(model, window)))

    hook = optimizer.register_step_pre_hook(look)
    try:
        yield seen
    finally:
        hook.remove()
