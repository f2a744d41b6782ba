"""Runs a window of training on fake tensors: sizes, with no memory behind them.

PyTorch's `FakeTensorMode` lets every operation compute the shape of its result and
nothing else, so a `Meter` inside it sees all sizes of a real run.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.memory.meter import Meter

Batch = Mapping[str, Tensor]
MakeModel = Callable[[], nn.Module]
MakeBatch = Callable[[int], Batch]
MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


class _UnknownValues(TorchDispatchMode):
    """Answers 1 where code asks a fake tensor for its value, and False for a bool.

    False is the careful answer: "is the mask all ones, so that it can go?"
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:  # as in Meter
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args=(), kwargs=None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except DataDependentOutputException:
            if func is not torch.ops.aten._local_scalar_dense.default:
                raise
            self.asked += 1
            dtype = args[0].dtype
            if dtype is torch.bool:
                return False
            return 1.0 if dtype.is_floating_point else 1


class Window(NamedTuple):
    """Live bytes of a window of two micro-batches.

    `parts` has an array (operations, kinds) for the first micro-batch, the second, and
    the update. `batch` is the bytes of one micro-batch and `labels` of its labels,
    where the whole window lies on the device: on a CPU; elsewhere 0.
    """

    parts: list[numpy.ndarray]
    batch: int
    labels: int


class FakeTraining:
    """A model and its optimizer on fake tensors, warmed up by one update.

    Args:
        make_model: builds the model, or is a model, which stays as it is.
        make_batch: builds a micro-batch of so many rows.
        make_optimizer: builds the optimizer of the parameters it is given.
        autocast: dtype of the forward pass as in `training.train`, or None.
        checkpointing: with the model's own gradient checkpointing.
        device: where the training would run.
    """

    def __init__(
        self,
        make_model: MakeModel | nn.Module,
        make_batch: MakeBatch,
        make_optimizer: MakeOptimizer,
        *,
        autocast: torch.dtype | None,
        checkpointing: bool,
        device: torch.device,
    ) -> None:
        self.make_batch, self.autocast, self.device = make_batch, autocast, device
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.values = _UnknownValues()
        with self.mode, self.values, torch.device(device):
            self.model = _fake_model(make_model, self.mode, device).train()
            self.values.asked = 0  # drawing the weights asks too, and sizes do not care
            if checkpointing:
                enable_checkpointing(self.model)
            self.optimizer = make_optimizer(self.model.parameters())
            for (
                parameter
            ) in self.model.parameters():  # the first update makes the state
                if parameter.requires_grad:
                    parameter.grad = torch.zeros_like(parameter)
            self.optimizer.step()
            self.optimizer.zero_grad()

    def window(self, rows: int) -> Window:
        """Two micro-batches of `rows` rows and an update, on fake tensors."""
        batches = [self._checked(self.make_batch(rows)) for _ in range(2)]
        on_cpu = self.device.type == "cpu"  # a GPU gets the window bit by bit
        enabled, loss, cuts = self.autocast is not None, 0.0, [0]
        with self.mode, self.values:
            if on_cpu:
                batches = [self._to_device(batch) for batch in batches]
            with Meter(self.model, self.optimizer) as meter:
                # The operations of training.accumulate and training.update, where a
                # scalar that is still held counts too: a test compares to the byte.
                if on_cpu:
                    for batch in batches:
                        (batch["labels"] != -100).sum()
                for batch in batches:
                    batch = batch if on_cpu else self._to_device(batch)
                    with torch.autocast(
                        self.device.type, self.autocast, enabled=enabled
                    ):
                        share = self._loss(batch) * 1 / 2
                    share.backward()
                    loss = loss + share.detach()
                    cuts.append(len(meter.timeline))
                del loss, share, batch
                norm = nn.utils.clip_grad_norm_(self.model.parameters(), math.inf)
                self.optimizer.step()
                del norm
            self.optimizer.zero_grad()
        split = numpy.array(list(meter.timeline_by_kind.values()), dtype=numpy.int64).T
        parts = [split[a:b] for a, b in itertools.pairwise([*cuts, len(split)])]
        if not on_cpu:
            return Window(parts, 0, 0)
        labels = batches[0]["labels"].untyped_storage().nbytes()
        return Window(parts, _bytes(batches[0].values()), labels)

    def _checked(self, batch: Batch) -> Batch:
        if not isinstance(batch, Mapping) or "labels" not in batch:
            raise ValueError(
                "make_batch has to give a dict of tensors with `labels`, for the loss; "
                f"it gave {', '.join(batch) if batch else type(batch).__name__}."
            )
        return batch

    def _to_device(self, batch: Batch) -> Batch:
        return {
            name: self.mode.from_tensor(t).to(self.device) for name, t in batch.items()
        }

    def _loss(self, batch: Batch) -> Tensor:
        loss = self.model(**batch).loss
        if loss is None:
            raise ValueError(
                f"{type(self.model).__name__} returned no loss; it must compute its "
                "mean loss when it is called with `labels`."
            )
        return loss


def _bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of their storages, each once."""
    storages = {id(s): s.nbytes() for s in (t.untyped_storage() for t in tensors)}
    return sum(storages.values())


def enable_checkpointing(model: nn.Module) -> None:
    """Switch a model's own gradient checkpointing on.

    Raises:
        ValueError: the model has none.
    """
    if not getattr(model, "supports_gradient_checkpointing", False):
        raise ValueError(
            f"{type(model).__name__} has no gradient checkpointing of its own; take "
            "checkpointing=False, or a model from transformers that supports it."
        )
    # transformers 5 has a new name for it, and warns of the old one.
    new = getattr(model, "activation_checkpointing_enable", None)
    enable = new or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})


def _fake_model(
    make_model: MakeModel | nn.Module, mode: FakeTensorMode, device: torch.device
) -> nn.Module:
    if not isinstance(make_model, nn.Module):
        return make_model()

    def fake(tensor: Tensor) -> Tensor:
        twin = mode.from_tensor(tensor)
        if twin.device.type == device.type:
            return twin
        moved = twin.detach().to(device)  # Module.to does not work on fake tensors
        kept = isinstance(tensor, nn.Parameter)
        return nn.Parameter(moved, tensor.requires_grad) if kept else moved

    real = [*make_model.parameters(), *make_model.buffers()]
    return copy.deepcopy(make_model, {id(tensor): fake(tensor) for tensor in real})
