"""The books of the meter: which storages are alive, how large, and of which kind.

A tensor's memory is its storage; views share one. Each storage that is seen gets an
entry, which is a weak reference to it: PyTorch keeps one Python object for a storage
as long as its memory lives, so the reference dies at the moment the memory is freed.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator

import torch

KINDS = ("parameters", "gradients", "optimizer state", "activations", "temporary")
PARAMETERS, GRADIENTS, OPTIMIZER_STATE, ACTIVATIONS, TEMPORARY = range(len(KINDS))


def tensors(tree: object) -> Iterator[torch.Tensor]:
    """All tensors in a tensor or in nested lists, tuples and dicts."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from tensors(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from tensors(item)


class Entry(weakref.ref):
    """One live storage: its key, kind, bytes, and the first row that counts it."""

    __slots__ = ("born", "key", "kind", "size")


class Ledger:
    """Live bytes by kind now, after each operation, and at their peak.

    Only storages on `device` count. `rows` holds one list of bytes by kind (in the
    order of `KINDS`) for each operation since the start or the last `restart`.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.entries: dict[int, Entry] = {}
        self.live = [0] * len(KINDS)
        self.total = 0
        self.rows: list[list[int]] = []
        self.peak = 0
        self.peak_row = 0
        self._earlier_rows = 0

    def add(self, tree: object, kind: int) -> None:
        """Count the storages in `tree` that are not counted yet, as `kind`."""
        for tensor in tensors(tree):
            try:
                storage = tensor.untyped_storage()
            except NotImplementedError:
                continue  # sparse: its indices and values are seen by themselves
            if id(storage) not in self.entries:
                self.open(storage, kind)

    def open(self, storage: torch.UntypedStorage, kind: int) -> None:
        """Count a storage that is not counted yet; one on another device is not."""
        if storage.device != self.device:
            return
        entry = Entry(storage, self._freed)
        entry.key = key = id(storage)
        entry.kind = kind
        entry.size = size = storage.nbytes()
        entry.born = self._earlier_rows + len(self.rows)
        self.entries[key] = entry
        self.live[kind] += size
        self.total += size

    def claim(self, tree: object, kind: int) -> None:
        """Say that the storages in `tree` are of `kind`, and were since they appeared.

        What a tensor is shows only later: a gradient becomes one when backward hands
        it to its parameter. The rows since its birth are corrected, so that the split
        at the peak tells a gradient from a temporary tensor.
        """
        others = []
        for tensor in tensors(tree):
            entry = self._entry_of(tensor)
            if entry is None:
                self.add(tensor, kind)
            elif entry.kind != kind:
                others.append(entry)
        if others:
            self._move(others, kind)

    def kind_of(self, tensor: torch.Tensor) -> int | None:
        """The kind that `tensor` is counted as; None where it is not counted."""
        entry = self._entry_of(tensor)
        return None if entry is None else entry.kind

    def note(self) -> None:
        """Write down a row: the live bytes after an operation."""
        if self.total > self.peak:
            self.peak, self.peak_row = self.total, len(self.rows)
        self.rows.append(self.live.copy())

    def restart(self) -> None:
        """Forget the rows and the peak; what is alive stays counted."""
        self._earlier_rows += len(self.rows)
        self.rows, self.peak, self.peak_row = [], 0, 0
        self.note()

    def close(self) -> None:
        """Let go of all storages; the figures stay as they are."""
        self.entries.clear()

    def _entry_of(self, tensor: torch.Tensor) -> Entry | None:
        try:
            return self.entries.get(id(tensor.untyped_storage()))
        except NotImplementedError:  # sparse
            return None

    def _freed(self, entry: Entry) -> None:
        if self.entries.pop(entry.key, None) is not None:
            self.live[entry.kind] -= entry.size
            self.total -= entry.size

    def _move(self, entries: Iterable[Entry], kind: int) -> None:
        # From its first row on, the bytes of an entry go from its old kind to `kind`.
        shifts: dict[int, list[int]] = {}
        for entry in {entry.key: entry for entry in entries}.values():  # views share
            row = max(entry.born - self._earlier_rows, 0)
            for shift in (shifts.setdefault(row, [0] * len(KINDS)), self.live):
                shift[entry.kind] -= entry.size
                shift[kind] += entry.size
            entry.kind = kind
        running = [0] * len(KINDS)
        for number in range(min(shifts, default=len(self.rows)), len(self.rows)):
            for index, size in enumerate(shifts.get(number, ())):
                running[index] += size
            row_bytes = self.rows[number]
            for index, size in enumerate(running):
                row_bytes[index] += size
