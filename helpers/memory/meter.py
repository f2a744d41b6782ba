"""Measures what fills the memory during training, operation by operation."""

from __future__ import annotations

import math
import weakref
from types import TracebackType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor  # documented, not public
from torch.utils._python_dispatch import TorchDispatchMode  # documented, not public

from helpers.memory import messages, table
from helpers.memory.allocator import AllocatorPeak
from helpers.memory.ledger import ACTIVATIONS, KINDS, TEMPORARY, Ledger
from helpers.memory.watch import Watch

_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_SCALARS = frozenset(
    {type(None), bool, int, float, str, torch.dtype, torch.device, torch.layout}
)


class Meter(TorchDispatchMode):
    """Counts the live bytes of every tensor while training, by kind, and their peak.

        with memory.Meter(model, optimizer) as meter:
            model(**batch).loss.backward()
        meter.peak, meter.at_peak["activations"]        # bytes

    The kinds: **parameters** (buffers too); **gradients**, what stands in `.grad`;
    **optimizer state**, told from temporary only where the optimizer is given;
    **activations**, what the forward pass made and still lives, and the batch;
    **temporary**, what backward, clipping and the optimizer make on their way.

    The bytes are those of tensors, exact to the byte. Workspaces that one operation
    takes and gives back inside itself do not show (on a CPU: convolutions, LSTMs). On
    CUDA `peak` and `reserved` come from PyTorch's allocator, which sees them too;
    the split by kind is of tensors there as well.

    Meters nest; one meter measures once at a time, and anew at each `with`. The
    figures stay readable afterwards, and the meter keeps neither model nor tensors
    alive. Read or reset within a long training: the timeline has one entry for each
    operation since the start or the last `reset_peak`.

    Args:
        model: any `torch.nn.Module`; its first parameter says which device counts.
        optimizer: its optimizer, where it has one.
        budget: bytes above which an operation raises `torch.OutOfMemoryError`; what
            `memory.limit` uses.

    Raises:
        TypeError: `model` is no module, or `optimizer` no optimizer.
        RuntimeError: entered while it is measuring already, or its model is gone.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        budget: float = math.inf,
    ) -> None:
        if not isinstance(model, torch.nn.Module):
            raise TypeError(
                f"A meter needs a model (torch.nn.Module); {type(model).__name__} came."
            )
        if not (optimizer is None or isinstance(optimizer, torch.optim.Optimizer)):
            raise TypeError(
                "The second argument of a meter is the optimizer, or nothing; "
                f"{type(optimizer).__name__} came."
            )
        super().__init__()
        self._model = weakref.ref(model)
        self._optimizer = weakref.ref(optimizer) if optimizer is not None else None
        self._budget = budget
        self._ledger = Ledger(torch.device("cpu"))
        self._cuda: AllocatorPeak | None = None
        self._watch: Watch | None = None  # while measuring

    # -- what a lesson reads --------------------------------------------------------

    @property
    def peak(self) -> int:
        """Most bytes alive at once; on CUDA the allocator's `max_memory_allocated`."""
        return self._cuda.read()[0] if self._cuda else self._ledger.peak

    @property
    def reserved(self) -> int | None:
        """Most bytes the CUDA allocator held (`max_memory_reserved`); else None."""
        return self._cuda.read()[1] if self._cuda else None

    @property
    def at_peak(self) -> dict[str, int]:
        """Bytes by kind at the moment when most bytes of tensors were alive."""
        self._settle()
        rows = self._ledger.rows
        row = rows[self._ledger.peak_row] if rows else self._ledger.live
        return dict(zip(KINDS, row, strict=True))

    @property
    def live(self) -> dict[str, int]:
        """Bytes by kind now; after the `with`, those at its end."""
        self._settle()
        return dict(zip(KINDS, self._ledger.live, strict=True))

    @property
    def timeline(self) -> list[int]:
        """Live bytes after each operation; the first entry is before any."""
        return [sum(row) for row in self._ledger.rows]

    @property
    def timeline_by_kind(self) -> dict[str, list[int]]:
        """The timeline split by kind: for each a list of bytes, all equally long."""
        self._settle()
        rows = self._ledger.rows
        return {kind: [row[i] for row in rows] for i, kind in enumerate(KINDS)}

    def reset_peak(self) -> None:
        """Start peak and timeline anew from what is alive now."""
        self._ledger.restart()  # kinds that show only later are corrected from here on
        if self._cuda and self._watch:
            self._cuda.start()

    def __str__(self) -> str:
        return table.text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table.html(self)

    # -- entering and leaving -------------------------------------------------------

    def __enter__(self) -> Meter:
        if self._watch:
            raise RuntimeError(
                "This meter is measuring already; make another one to nest inside it."
            )
        model = self._model()
        if model is None:
            raise RuntimeError(
                "The model of this meter is gone; make a meter for the new model."
            )
        optimizer = self._optimizer() if self._optimizer else None
        first = next(model.parameters(), None)
        device = torch.device("cpu") if first is None else first.device
        if isinstance(first, FakeTensor):  # its storage, which is counted, is on "meta"
            device = torch.device("meta")
        self._ledger = Ledger(device)
        self._watch = Watch(model, optimizer, self._ledger)
        self._watch.start(model)
        self._ledger.note()
        self._cuda = AllocatorPeak(device) if device.type == "cuda" else None
        if self._cuda:
            self._cuda.start()
        super().__enter__()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(error_type, error, trace)
        if self._watch:
            self._watch.settle()
            self._watch.stop()
        self._watch = None
        self._ledger.close()
        if self._cuda:
            self._cuda.stop()

    def _settle(self) -> None:
        if self._watch:
            self._watch.settle()

    # -- counting -------------------------------------------------------------------

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # True, the default of newer PyTorch, loads torch.compile's machinery (seconds)
        # and goes through it at each operation.
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Called by PyTorch for each operation, in forward, backward and update."""
        # This runs hundreds of times a step: exact types before isinstance, and no
        # call for a storage that is known.
        ledger = self._ledger
        entries = ledger.entries
        before = ledger.total
        try:
            for value in args:  # made before the meter, first seen here: the batch
                if type(value) in _TENSORS:
                    storage = value.untyped_storage()
                    if id(storage) not in entries:
                        ledger.open(storage, ACTIVATIONS)
                elif type(value) not in _SCALARS:
                    ledger.add(value, ACTIVATIONS)
        except NotImplementedError:  # a sparse tensor has no storage
            ledger.add(args, ACTIVATIONS)
        if kwargs:
            ledger.add(kwargs, ACTIVATIONS)
        try:
            out = func(*args, **kwargs) if kwargs else func(*args)
        except torch.OutOfMemoryError as error:
            storage = value = args = kwargs = None  # the traceback must not keep them
            messages.shorten(error, ledger.device, self._budget)
            raise
        if type(out) in _TENSORS:
            try:
                storage = out.untyped_storage()
                if id(storage) not in entries:
                    ledger.open(storage, self._kind_of_new())
            except NotImplementedError:
                pass
        elif out is not None:
            ledger.add(out, self._kind_of_new())
        total = ledger.total
        if total > self._budget and total > before:
            out = storage = value = args = kwargs = None
            raise messages.over_budget(total - before, before, self._budget)
        if total > ledger.peak:
            ledger.peak, ledger.peak_row = total, len(ledger.rows)
        ledger.rows.append(ledger.live.copy())
        return out

    def _kind_of_new(self) -> int:
        # Backward and the optimizer record no gradients; checkpointing, which repeats
        # the forward pass inside backward, does. A custom autograd Function records
        # none either, but runs inside the model's forward.
        recording = self._watch.in_forward or torch.is_grad_enabled()
        return ACTIVATIONS if recording else TEMPORARY
