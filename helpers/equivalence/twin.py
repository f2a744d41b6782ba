"""A copy of a Trainer that trains without moving a weight, and what its updates did.

The copy keeps the user's data, collator, loss, overrides and callbacks. It steps with
a learning rate of zero, so that every window is taken at the weights of now, and writes
into a temporary folder. Dropout, mixed precision and clipping are off.
"""

from __future__ import annotations

import contextlib
import copy
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from .drawn import CannotTell, Drawn
from .reference import gradient, without_dropout

PASSES = 3  # a stream that made no update in so many passes never will
QUIET = {
    "auto_find_batch_size": False,
    "bf16": False,
    "dataloader_num_workers": 0,
    "dataloader_persistent_workers": False,
    "dataloader_prefetch_factor": None,
    "disable_tqdm": True,
    "eval_strategy": "no",
    "fp16": False,
    "load_best_model_at_end": False,
    "logging_first_step": False,
    "logging_nan_inf_filter": False,  # it would hide a loss that is not a number
    "logging_steps": 1,
    "logging_strategy": "steps",
    "max_grad_norm": 0,
    "neftune_noise_alpha": None,
    "optim": "sgd",
    "push_to_hub": False,
    "report_to": [],
    "save_strategy": "no",
    "torch_compile": False,
}


@dataclass
class Run:
    """What the copy did: the gradient and the logged loss of each update."""

    gradients: list[dict[str, Tensor]] = field(default_factory=list)
    logged: list[float] = field(default_factory=list)
    endless: bool = False


class _Endless(Exception):
    """The Trainer reads its data again and again and never makes an update."""


def twin_of(trainer, folder: str):
    """Copy the Trainer for an audit; the original is not touched."""
    from transformers.trainer_callback import CallbackHandler, TrainerControl

    twin = copy.copy(trainer)
    try:
        # Batch normalisation stays in the mode that training would put it in.
        twin.model = without_dropout(copy.deepcopy(trainer.model).train()).float()
    except Exception as error:
        raise CannotTell(
            f"The model cannot be copied ({type(error).__name__}: {error}), and the "
            "audit works on a copy."
        ) from None
    for parameter in twin.model.parameters():
        parameter.grad = None
    # training_step calls model.train(), which would switch dropout on again.
    twin.model.train = lambda mode=True: twin.model
    twin.model_wrapped, twin.model_init = twin.model, None
    twin.args = copy.copy(trainer.args)
    vars(twin.args).update(QUIET, output_dir=folder)
    twin.control, twin.is_in_train = TrainerControl(), False
    trained = [p for p in twin.model.parameters() if p.requires_grad]
    if not trained:
        raise CannotTell("No weight of the model is trained: requires_grad is False.")
    twin.optimizer = torch.optim.SGD(trained, lr=0.0)
    twin.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(twin.optimizer, lambda _: 1)
    for name in ("create_optimizer_and_scheduler", "create_optimizer"):
        setattr(twin, name, lambda *_, **__: twin.optimizer)
    twin.create_scheduler = lambda *_, **__: twin.lr_scheduler
    twin._created_lr_scheduler = False  # else a second training makes a new one
    twin.create_accelerator_and_postprocess()
    twin.accelerator.native_amp, twin.accelerator.scaler = False, None
    twin.callback_handler = CallbackHandler(
        _callbacks(trainer),
        twin.model,
        getattr(trainer, "processing_class", None),
        twin.optimizer,
        twin.lr_scheduler,
    )
    return twin


def _callbacks(trainer) -> list:
    """Copies of the user's own callbacks; those of transformers report and draw."""
    from transformers.trainer_callback import DefaultFlowCallback

    own = [
        callback
        for callback in trainer.callback_handler.callbacks
        if not type(callback).__module__.startswith("transformers.")
    ]
    copies = [DefaultFlowCallback()]
    for callback in own:
        with contextlib.suppress(Exception):
            copies.append(copy.deepcopy(callback))
    return copies


def run(twin, drawn: Drawn, updates: int) -> Run:
    """Let the copy train over the micro-batches with the Trainer's own loop."""
    done, steps = Run(), 0
    most = PASSES * len(drawn.batches) + updates * twin.args.gradient_accumulation_steps
    own_step, model = twin.training_step, twin.model

    def step(*arguments, **named):
        nonlocal steps
        steps += 1
        if steps > most:
            raise _Endless
        return own_step(*arguments, **named)

    def log(logs: Mapping, *_: object, **__: object) -> None:
        if "loss" in logs:
            done.logged.append(float(logs["loss"]))

    def look(*_: object) -> None:
        done.gradients.append(gradient(model))

    twin.training_step, twin.log = step, log
    twin.get_train_dataloader = lambda: _loader(drawn)
    vars(twin.args).update(num_train_epochs=1, max_steps=-1 if drawn.sized else updates)
    hook = twin.optimizer.register_step_pre_hook(look)
    try:
        twin.train()
    except _Endless:
        done.endless = True
    finally:
        hook.remove()
        twin.training_step = own_step
    return done


def _loader(drawn: Drawn) -> DataLoader:
    data = _Batches(drawn.batches) if drawn.sized else _Stream(drawn.batches)
    return DataLoader(data, batch_size=None, collate_fn=lambda batch: batch)


class _Batches(Dataset):
    def __init__(self, batches: list) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, place: int) -> dict:
        return dict(self.batches[place])


class _Stream(IterableDataset):
    def __init__(self, batches: list) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[dict]:
        return (dict(batch) for batch in self.batches)


@contextlib.contextmanager
def undisturbed() -> Iterator[str]:
    """A temporary folder; afterwards random states and accelerate's are as before."""
    import random

    import numpy
    from accelerate.state import GradientState
    from transformers.utils import logging

    states = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    shared, verbosity = dict(GradientState._shared_state), logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with tempfile.TemporaryDirectory(prefix="audit-") as folder:
            yield folder
    finally:
        logging.set_verbosity(verbosity)
        GradientState._shared_state.clear()
        GradientState._shared_state.update(shared)
        random.setstate(states[0])
        numpy.random.set_state(states[1])
        torch.set_rng_state(states[2])
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
