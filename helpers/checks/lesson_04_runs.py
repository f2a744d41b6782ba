"""Two Trainers that lesson 4 hands over, each with a fault for the learner to find."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from torch import nn

LOG_STEPS = 8  # accumulation steps of the run behind `somebodys_log`


def somebodys_log() -> list[dict[str, float]]:
    """The log of a run whose updates nobody divides; accumulation steps not told.

    Returns:
        First {"update": 1, "loss": ...}, then for each of three epochs a dictionary
        with "epoch", "loss" (training) and "eval_loss".
    """
    from helpers import data, models

    tickets = data.load("tickets")
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(
            models.classifier(),
            tickets.tokenized().select(range(512)),
            folder,
            steps=LOG_STEPS,
            made={
                "eval_dataset": tickets.tokenized("validation"),
                "data_collator": tickets.collator,
                "compute_loss_func": _undivided,
            },
            eval_strategy="epoch",
            logging_strategy="epoch",
            logging_first_step=True,
            learning_rate=1e-3,
            num_train_epochs=3,
        )
        trainer.train()
    history = trainer.state.log_history
    losses = [entry["loss"] for entry in history if "loss" in entry]
    evaluated = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    return [{"update": 1, "loss": losses[0]}] + [
        {"epoch": epoch, "loss": loss, "eval_loss": after}
        for epoch, (loss, after) in enumerate(
            zip(losses[1:], evaluated, strict=True), start=1
        )
    ]


def mystery_trainer() -> Any:
    """A Trainer with one fault. Audit it before you read on in this file."""
    generator = torch.Generator().manual_seed(4)
    rows = [
        {"x": torch.randn(16, generator=generator), "labels": label}
        for label in torch.randint(2, (64,), generator=generator)
    ]
    with tempfile.TemporaryDirectory() as folder:  # nothing is written to it
        return _trainer(_Network(), rows, folder, steps=4)


class _Network(nn.Module):
    """Divides as it should; what ties its rows together is the layer in the middle."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(4)
        self.body = nn.Sequential(
            nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Linear(32, 2)
        )
        with torch.no_grad():
            for p in self.parameters():
                if p.ndim > 1:
                    p.copy_(torch.randn(p.shape, generator=generator) / 4)

    def forward(self, x, labels, num_items_in_batch=None, **kwargs):
        logits = self.body(x)
        total = nn.functional.cross_entropy(logits, labels, reduction="sum")
        return {"loss": total / (num_items_in_batch or len(labels)), "logits": logits}


def _undivided(outputs, labels, num_items_in_batch=None):
    return nn.functional.cross_entropy(outputs.logits, labels)


def _trainer(model, rows, folder: str, *, steps: int, made=None, **arguments):
    """A Trainer that writes nothing and prints nothing."""
    from transformers import PrinterCallback, Trainer, TrainingArguments

    options = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=64,
        gradient_accumulation_steps=steps,
        use_cpu=not torch.cuda.is_available(),
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        **arguments,
    )
    trainer = Trainer(model=model, args=options, train_dataset=rows, **(made or {}))
    trainer.remove_callback(PrinterCallback)
    return trainer
