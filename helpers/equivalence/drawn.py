"""The micro-batches that an audit looks at, from the Trainer's own loader."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils.data import IterableDataset


class CannotTell(Exception):
    """Why nothing can be said about this Trainer; one sentence."""


@dataclass
class Drawn:
    """Micro-batches of one pass, from the Trainer's own loader.

    Attributes:
        batches: what the collator gave.
        sized: whether the loader has a length; a stream has none.
        whole: whether they are the whole pass, and not its beginning.
    """

    batches: list[Any]
    sized: bool
    whole: bool


def draw(twin, windows: int) -> Drawn:
    """The first micro-batches of the Trainer's loader, and a last window like its own.

    Where a pass is longer than `windows` full windows and one more, the last window is
    made of as many micro-batches as the pass's own last one has, the last of them cut
    to as many rows.
    """
    if isinstance(twin.train_dataset, IterableDataset):
        try:
            twin.train_dataset = copy.deepcopy(twin.train_dataset)
        except Exception:
            raise CannotTell(
                "The stream cannot be copied, and to read it would move it on; make "
                "the Trainer with a data set that can be read anew."
            ) from None
    try:
        loader = twin.get_train_dataloader()
    except Exception as error:
        raise CannotTell(
            f"The train data give no micro-batch ({type(error).__name__}: {error})."
        ) from None
    steps = twin.args.gradient_accumulation_steps
    length = len(loader) if hasattr(loader, "__len__") and _sized(loader) else None
    most = (windows + 1) * steps
    if length is not None and length > most:
        short = length % steps
        batches = _first(loader, windows * steps + (short or steps))
        batches[-1] = _cut(batches[-1], _rows_at_end(loader, length))
        return Drawn(batches, True, False)
    batches = _first(loader, most + 1)
    if not batches:
        raise CannotTell("The train data set gives no micro-batch.")
    if length is not None or len(batches) <= most:
        return Drawn(batches, length is not None, True)
    return Drawn(batches[: windows * steps + 1], False, False)


def _sized(loader) -> bool:
    try:
        len(loader)
    except (TypeError, NotImplementedError):
        return False
    return True


def _first(loader, count: int) -> list:
    batches = []
    for batch in loader:
        if not isinstance(batch, Mapping):
            raise CannotTell(
                f"The collator gives a {type(batch).__name__}; the audit reads a "
                "dictionary of tensors."
            )
        batches.append(batch)
        if len(batches) == count:
            break
    return batches


def _rows_at_end(loader, length: int) -> int:
    """Rows of the pass's last micro-batch, 0 where they cannot be told."""
    size = getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
    data = getattr(loader, "dataset", None)
    if not size or not hasattr(data, "__len__"):
        return 0
    return len(data) - (length - 1) * size


def _cut(batch: Mapping, rows: int) -> dict:
    full = rows_of(batch)
    if not 0 < rows < full:
        return dict(batch)
    return {
        name: value[:rows]
        if isinstance(value, Tensor) and value.ndim and len(value) == full
        else value
        for name, value in batch.items()
    }


def rows_of(batch: Mapping) -> int:
    """Rows of a micro-batch: the first axis of its labels, else of its first tensor."""
    values = [batch.get("labels"), *batch.values()]
    return next((len(v) for v in values if isinstance(v, Tensor) and v.ndim), 0)
