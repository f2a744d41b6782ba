"""Seven ways to train with accumulation, each as people write it, for the scorecard.

Each takes a `Task` and trains the model for one epoch; `Outcome` holds what came of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from .. import training
from .reference import join
from .remedies import summed_cross_entropy
from .twin import undisturbed

Batch = Mapping[str, Tensor]


@dataclass
class Task:
    """One epoch to train: a new model, micro-batches in their order, settings.

    Attributes:
        make_model: gives the same model each time.
        batches: micro-batches of one epoch.
        steps: accumulation steps.
        max_norm: clip to this length, or None.
        rate: learning rate of SGD; it falls to 0 over the epoch where `decays`.
    """

    make_model: Callable[[], nn.Module]
    batches: Sequence[Batch]
    steps: int
    max_norm: float | None = None
    rate: float = 0.1
    decays: bool = False

    @property
    def updates(self) -> int:
        """One for each window, the short one included."""
        return math.ceil(len(self.batches) / self.steps)

    def parts(self) -> tuple[nn.Module, torch.optim.Optimizer, object]:
        """A new model in float64, its optimizer and its schedule."""
        model = self.make_model().double().train()
        optimizer = torch.optim.SGD(model.parameters(), lr=self.rate)
        plan = torch.optim.lr_scheduler.LambdaLR(optimizer, self.fraction)
        return model, optimizer, plan

    def fraction(self, update: int) -> float:
        """Of the learning rate, after so many updates."""
        return max(0.0, 1 - update / self.updates) if self.decays else 1.0


@dataclass
class Outcome:
    """What a way of training did: weights (all), rate left, updates, logged losses."""

    weights: Tensor
    rate: float
    updates: int
    logged: list[float] = field(default_factory=list)


class _Counter:
    """Counts the steps of an optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.updates = 0
        optimizer.register_step_post_hook(self._note)

    def _note(self, *_: object) -> None:
        self.updates += 1


def _outcome(model, optimizer, count: _Counter, logged: list[float]) -> Outcome:
    weights = torch.cat([p.detach().double().flatten() for p in model.parameters()])
    return Outcome(weights, optimizer.param_groups[0]["lr"], count.updates, logged)


def large_batch(task: Task) -> Outcome:
    """What all of them stand for: each window as one large batch."""
    model, optimizer, plan = task.parts()
    count, logged = _Counter(optimizer), []
    for window in training.windows(task.batches, task.steps):
        loss = model(**join(window)).loss
        loss.backward()
        logged.append(loss.item())
        training.update(model, optimizer, plan, task.max_norm)
    return _outcome(model, optimizer, count, logged)


def slides(task: Task, at_end: bool = False) -> Outcome:
    """The loop of the textbooks: an update after every k-th micro-batch."""
    model, optimizer, plan = task.parts()
    count, logged = _Counter(optimizer), []
    for i, batch in enumerate(task.batches):
        loss = model(**batch).loss / task.steps
        loss.backward()
        if (i + 1) % task.steps == 0 or (at_end and i + 1 == len(task.batches)):
            logged.append(loss.item())
            training.update(model, optimizer, plan, task.max_norm)
    return _outcome(model, optimizer, count, logged)


def usual_repair(task: Task) -> Outcome:
    """The same, with an update after the last micro-batch too."""
    return slides(task, at_end=True)


def shared(task: Task) -> Outcome:
    """The course's own loop."""
    model, optimizer, plan = task.parts()
    count = _Counter(optimizer)
    history = training.train(
        model,
        task.batches,
        optimizer=optimizer,
        accumulation_steps=task.steps,
        scheduler=plan,
        max_norm=task.max_norm,
        progress=False,
    )
    logged = [update.loss for update in history.updates]
    return _outcome(model, optimizer, count, logged)


def accelerate_documented(task: Task) -> Outcome:
    """Accelerate as its documentation shows it."""
    with undisturbed():
        accelerator = _accelerator(task.steps)
        model, optimizer, plan = task.parts()
        count, logged = _Counter(optimizer), []
        loader = DataLoader(list(task.batches), batch_size=None, collate_fn=dict)
        model, optimizer, plan, loader = accelerator.prepare(
            model, optimizer, plan, loader
        )
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    logged.append(loss.item())
                    if task.max_norm is not None:
                        accelerator.clip_grad_norm_(model.parameters(), task.max_norm)
                optimizer.step()
                plan.step()
                optimizer.zero_grad()
        return _outcome(model, optimizer, count, logged)


def accelerate_exact(task: Task) -> Outcome:
    """Accelerate by windows: the targets are counted first, and divided by once."""
    with undisturbed():
        accelerator = _accelerator(1)
        model, optimizer, plan = task.parts()
        count, logged = _Counter(optimizer), []
        model = accelerator.prepare(model)
        for window in training.windows(task.batches, task.steps):
            targets = [training.count_targets(batch) for batch in window]
            total = 0.0
            for batch, own in zip(window, targets, strict=True):
                share = model(**batch).loss * own / sum(targets)
                accelerator.backward(share)
                total += share.item()
            logged.append(total)
            training.update(model, optimizer, plan, task.max_norm)
        return _outcome(model, optimizer, count, logged)


def _accelerator(steps: int):
    from accelerate import Accelerator

    return Accelerator(gradient_accumulation_steps=steps, cpu=True)


def trainer_shipped(task: Task, repair: Callable | None = None) -> Outcome:
    """The Trainer with its defaults, in single precision."""
    import transformers

    with undisturbed() as folder:
        model = task.make_model().train()
        optimizer = torch.optim.SGD(model.parameters(), lr=task.rate)
        plan = torch.optim.lr_scheduler.LambdaLR(optimizer, task.fraction)
        count = _Counter(optimizer)
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            gradient_accumulation_steps=task.steps,
            num_train_epochs=1,
            max_grad_norm=task.max_norm or 0,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = transformers.Trainer(
            model=model,
            args=arguments,
            train_dataset=list(task.batches),
            optimizers=(optimizer, plan),
            compute_loss_func=repair,
        )
        trainer.get_train_dataloader = lambda: DataLoader(
            list(task.batches), batch_size=None, collate_fn=dict
        )
        logged: list[float] = []
        trainer.log = lambda logs, *_: (
            logged.append(logs["loss"]) if ("loss" in logs) else None
        )
        trainer.train()
        return _outcome(model, optimizer, count, logged)


def trainer_repaired(task: Task) -> Outcome:
    """The Trainer with a `compute_loss_func` that divides by the window's targets."""
    return trainer_shipped(task, summed_cross_entropy)


WAYS: dict[str, Callable[[Task], Outcome]] = {
    "the slides' loop": slides,
    "the usual repair": usual_repair,
    "the shared loop": shared,
    "Accelerate, documented": accelerate_documented,
    "Accelerate, by windows": accelerate_exact,
    "Trainer, as shipped": trainer_shipped,
    "Trainer, repaired": trainer_repaired,
}
