"""Measures what fills the memory during training, operation by operation."""

from __future__ import annotations

import math
import weakref
from types import TracebackType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode  # private name, used widely

from helpers.memory import table
from helpers.memory.allocator import AllocatorPeak
from helpers.memory.ledger import (
    ACTIVATIONS,
    GRADIENTS,
    KINDS,
    OPTIMIZER_STATE,
    PARAMETERS,
    TEMPORARY,
    Ledger,
)
from helpers.memory.units import readable

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
    alive.

    Args:
        model: any `torch.nn.Module`.
        optimizer: its optimizer, where it has one.
        budget: bytes above which an operation raises `torch.OutOfMemoryError`; what
            `memory.limit` uses.

    Raises:
        TypeError: `model` is no module, or `optimizer` no optimizer.
        RuntimeError: entered while it is measuring already.
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
        self._active = self._in_forward = False
        self._hooks: list[Any] = []
        self._watched: dict[int, weakref.ref] = {}

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
        """Live bytes after each operation, the first entry before any."""
        return [sum(row) for row in self._ledger.rows]

    @property
    def timeline_by_kind(self) -> dict[str, list[int]]:
        """The same split by kind: one list of bytes for each, all equally long."""
        self._settle()
        rows = self._ledger.rows
        return {kind: [row[i] for row in rows] for i, kind in enumerate(KINDS)}

    def reset_peak(self) -> None:
        """Start peak and timeline anew from what is alive now."""
        self._settle()
        self._ledger.restart()
        if self._cuda and self._active:
            self._cuda.start()

    # -- entering and leaving -------------------------------------------------------

    def __enter__(self) -> Meter:
        model = self._model()
        if self._active:
            raise RuntimeError(
                "This meter is measuring already; make another one to nest inside it."
            )
        if model is None:
            raise RuntimeError(
                "The model of this meter is gone; make a meter for the new model."
            )
        first = next(model.parameters(), None)
        device = torch.device("cpu") if first is None else first.device
        self._ledger, self._active = Ledger(device), True
        self._settle()
        self._ledger.note()
        self._cuda = AllocatorPeak(device) if device.type == "cuda" else None
        if self._cuda:
            self._cuda.start()

        # Plain functions: a deep copy of the model shares them, a method would drag
        # the meter along.
        def before(*_: object) -> None:
            self._in_forward = True
            self._watch_parameters()

        def after(*_: object) -> None:
            self._in_forward = False

        self._hooks.append(model.register_forward_pre_hook(before))
        self._hooks.append(model.register_forward_hook(after, always_call=True))
        super().__enter__()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(error_type, error, trace)
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._watched.clear()
        self._settle()
        self._ledger.close()
        if self._cuda:
            self._cuda.stop()
        self._active = self._in_forward = False

    # -- counting -------------------------------------------------------------------

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
                    if id(value.untyped_storage()) not in entries:
                        ledger.add(value, ACTIVATIONS)
                elif type(value) not in _SCALARS:
                    ledger.add(value, ACTIVATIONS)
        except NotImplementedError:  # a sparse tensor has no storage
            ledger.add(args, ACTIVATIONS)
        if kwargs:
            ledger.add(kwargs, ACTIVATIONS)
            out = func(*args, **kwargs)
        else:
            out = func(*args)
        # Backward and the optimizer record no gradients; checkpointing, which repeats
        # the forward pass inside backward, does. A custom autograd Function records
        # none either, but runs inside the model's forward.
        recording = self._in_forward or torch.is_grad_enabled()
        ledger.add(out, ACTIVATIONS if recording else TEMPORARY)
        total = ledger.total
        if total > ledger.peak and total > self._budget:
            out = value = args = kwargs = None  # the traceback must not keep them
            raise self._out_of_memory(total - before, before)
        ledger.note()
        return out

    def _out_of_memory(self, asked: int, used: int) -> torch.OutOfMemoryError:
        # Accelerate recognises the error by the words " out of memory.".
        return torch.OutOfMemoryError(
            f"Training is out of memory. It asked for {readable(asked)} more while "
            f"{readable(used)} were in use; the limit is {readable(self._budget)}."
        )

    def _watch_parameters(self) -> None:
        # At each forward, since a parameter may have been replaced meanwhile.
        model = self._model()
        if model is None:
            return
        for parameter in model.parameters():
            self._ledger.claim(parameter, PARAMETERS)
            known = self._watched.get(id(parameter), _nothing)
            if parameter.requires_grad and known() is not parameter:
                self._watched[id(parameter)] = weakref.ref(parameter)
                hook = parameter.register_post_accumulate_grad_hook(
                    self._claim_gradient
                )
                self._hooks.append(hook)

    def _claim_gradient(self, parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            self._ledger.claim(parameter.grad, GRADIENTS)

    def _settle(self) -> None:
        # Brings every kind up to date before it is read.
        model = self._model()
        if not self._active or model is None:
            return
        optimizer = self._optimizer() if self._optimizer is not None else None
        if optimizer is not None:
            self._ledger.claim(dict(optimizer.state), OPTIMIZER_STATE)
        self._watch_parameters()
        for parameter in model.parameters():
            self._claim_gradient(parameter)
        self._ledger.claim(list(model.buffers()), PARAMETERS)

    # -- showing --------------------------------------------------------------------

    def __str__(self) -> str:
        return table.text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table.html(self)


def _nothing() -> None:
    """Stands for the weak reference of a parameter that was never seen."""
