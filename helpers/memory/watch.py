"""Tells the ledger what a tensor is: parameter, gradient or optimizer state."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from helpers.memory.ledger import GRADIENTS, OPTIMIZER_STATE, PARAMETERS, Ledger


class Watch:
    """Follows a model and its optimizer by hooks, between `start` and `stop`.

    It holds weak references only, so a meter that is kept keeps no model alive.
    `in_forward` says whether the model's forward pass is running.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | None,
        ledger: Ledger,
    ) -> None:
        self._model = weakref.ref(model)
        self._optimizer = weakref.ref(optimizer) if optimizer is not None else None
        self._ledger = ledger
        self._hooks: list[Any] = []
        self._hooked: dict[int, weakref.ref] = {}  # id of a parameter -> the parameter
        self.in_forward = False

    def start(self, model: torch.nn.Module) -> None:
        """Count what the model holds, and follow it from here on."""

        # Plain functions: a deep copy of the model shares them, where it would copy
        # a method together with its object.
        def before(*_: object) -> None:
            self.in_forward = True
            self._follow_parameters(model_of())

        def after(*_: object) -> None:
            self.in_forward = False

        model_of = self._model
        self._hooks.append(model.register_forward_pre_hook(before))
        self._hooks.append(model.register_forward_hook(after, always_call=True))
        self.settle()

    def stop(self) -> None:
        """Take all hooks away again."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._hooked.clear()
        self.in_forward = False

    def settle(self) -> None:
        """Bring every kind up to date, before it is read."""
        model = self._model()
        optimizer = self._optimizer() if self._optimizer is not None else None
        if optimizer is not None:
            self._ledger.claim(dict(optimizer.state), OPTIMIZER_STATE)
        if model is not None:
            parameters = self._follow_parameters(model)
            self._ledger.claim(list(model.buffers()), PARAMETERS)
            self._ledger.claim([p.grad for p in parameters], GRADIENTS)

    def _follow_parameters(
        self, model: torch.nn.Module | None
    ) -> list[torch.nn.Parameter]:
        # Called at each forward too, since a parameter may have been replaced.
        if model is None:
            return []
        ledger, hooked = self._ledger, self._hooked
        parameters = list(model.parameters())
        for parameter in parameters:
            if ledger.kind_of(parameter) != PARAMETERS:
                ledger.claim(parameter, PARAMETERS)
            known = hooked.get(id(parameter))
            if parameter.requires_grad and (known is None or known() is not parameter):
                hooked[id(parameter)] = weakref.ref(parameter)
                self._hooks.append(
                    parameter.register_post_accumulate_grad_hook(self._claim_gradient)
                )
        return parameters

    def _claim_gradient(self, parameter: torch.Tensor) -> None:
        gradient = parameter.grad
        if gradient is not None and self._ledger.kind_of(gradient) != GRADIENTS:
            self._ledger.claim(gradient, GRADIENTS)
