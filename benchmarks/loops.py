"""Four loops that do the same work, each as its library's users write it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader

from helpers import training

MAX_NORM = 1.0  # the Trainer clips so unless told otherwise; all four do it


@dataclass
class Work:
    """One epoch of SGD with clipping and a scheduler.

    Attributes:
        start: the model that every loop begins with a copy of.
        loader: micro-batches of equal size, in one order.
        steps: accumulation steps; they divide the number of micro-batches.
        folder: where the Trainer may write.
    """

    start: nn.Module
    loader: DataLoader
    steps: int
    folder: str
    device: torch.device
    rate: float = 0.1

    def parts(self) -> tuple[nn.Module, torch.optim.Optimizer, object]:
        """A copy of the model, its optimizer and a scheduler that keeps the rate."""
        model = copy.deepcopy(self.start).to(self.device).train()
        optimizer = torch.optim.SGD(model.parameters(), lr=self.rate)
        return model, optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)


Epoch = Callable[[], object]
# Gives the model, and a function that makes what is not timed and gives the epoch.
Way = Callable[[Work], tuple[nn.Module, Callable[[], Epoch]]]


def bare(work: Work):
    """The loop of textbooks, right where k divides the micro-batches, as here."""
    model, optimizer, scheduler = work.parts()

    def epoch() -> list[float]:
        model.train()
        losses, total = [], 0.0
        optimizer.zero_grad()
        for number, batch in enumerate(work.loader, 1):
            batch = {name: t.to(work.device) for name, t in batch.items()}
            loss = model(**batch).loss / work.steps
            loss.backward()
            total = total + loss.detach()
            if number % work.steps == 0:
                nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                losses.append(total.item())
                total = 0.0
        return losses

    return model, lambda: epoch


def shared(work: Work):
    """The course's `training.train`."""
    model, optimizer, scheduler = work.parts()

    def epoch() -> object:
        return training.train(
            model,
            work.loader,
            optimizer=optimizer,
            accumulation_steps=work.steps,
            scheduler=scheduler,
            max_norm=MAX_NORM,
            progress=False,
        )

    return model, lambda: epoch


def accelerated(work: Work):
    """Accelerate, as its documentation writes the loop."""
    from accelerate import Accelerator

    model, *rest = work.parts()

    def prepare() -> Epoch:
        accelerator = Accelerator(
            gradient_accumulation_steps=work.steps, cpu=work.device.type == "cpu"
        )
        return _accelerated_epoch(
            accelerator, *accelerator.prepare(model, *rest, work.loader), work.steps
        )

    return model, prepare


def _accelerated_epoch(
    accelerator, model, optimizer, scheduler, loader, steps
) -> Epoch:
    def epoch() -> list[float]:
        model.train()
        losses, total = [], 0.0
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                total = total + loss.detach() / steps
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), MAX_NORM)
                    losses.append(total.item())
                    total = 0.0
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        return losses

    return epoch


def trainer(work: Work):
    """The Trainer, told to divide by k, which it leaves out for this model."""
    import transformers

    model, optimizer, scheduler = work.parts()

    def prepare() -> Epoch:
        arguments = transformers.TrainingArguments(
            output_dir=work.folder,
            gradient_accumulation_steps=work.steps,
            num_train_epochs=1,
            max_grad_norm=MAX_NORM,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=work.device.type == "cpu",
        )
        made = transformers.Trainer(
            model=model,
            args=arguments,
            train_dataset=work.loader.dataset,
            optimizers=(optimizer, scheduler),
        )
        made.model_accepts_loss_kwargs = False  # huggingface/transformers issue 47688
        made.get_train_dataloader = lambda: work.loader
        made.log = lambda *_: None  # its summary would be printed every epoch
        return made.train

    return model, prepare


WAYS: dict[str, Way] = {
    "bare loop": bare,
    "shared loop": shared,
    "Accelerate": accelerated,
    "Trainer": trainer,
}
