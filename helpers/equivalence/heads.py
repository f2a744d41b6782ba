"""Audits one architecture, or one checkpoint, with a Trainer made for the occasion."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from . import tiny
from .audit import audit
from .report import Audit

ROWS = 2  # of a micro-batch
AUTO = {
    "sequence-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "masked-lm": "AutoModelForMaskedLM",
    "causal-lm": "AutoModelForCausalLM",
    "multiple-choice": "AutoModelForMultipleChoice",
    "seq2seq-lm": "AutoModelForSeq2SeqLM",
    "image-classification": "AutoModelForImageClassification",
    "question-answering": "AutoModelForQuestionAnswering",
}


@dataclass
class Result:
    """What the audit of one head said, as a row of a table.

    Attributes:
        model: architecture or checkpoint.
        head: name of the model's class; "" where it could not be built.
        exact: None where it could not be told, and `why` says why.
        ratios, residual: of the windows; the largest residual.
        why: the cause of a fault, or what could not be done.
        remedy: a line that was tried and makes it exact, or "".
    """

    model: str
    task: str
    accumulation_steps: int
    head: str = ""
    exact: bool | None = None
    ratios: list[float] = field(default_factory=list)
    residual: float | None = None
    why: str = ""
    remedy: str = ""
    seconds: float = 0.0

    @property
    def said(self) -> str:
        """exact, not exact or cannot tell."""
        return {True: "exact", False: "not exact", None: "cannot tell"}[self.exact]

    def row(self) -> dict[str, object]:
        """Its values for a table, rounded so that two tables can be compared."""
        row = asdict(self) | {"exact": self.said}
        row["ratios"] = " ".join(f"{ratio:.3f}" for ratio in self.ratios)
        row["residual"] = "" if self.residual is None else f"{self.residual:.0e}"
        return row


def audit_head(
    model: str, task: str, steps: int, checkpoint: bool = False
) -> tuple[Audit | None, Result]:
    """Audit a tiny model of an architecture, or a checkpoint from a folder or the Hub.

    Raises:
        ValueError: there is no such task or architecture, or steps is below 1.
        helpers.hub.HubUnavailable: the checkpoint cannot be had.
    """
    if steps < 1:
        raise ValueError(f"accumulation steps are a whole number of 1 or more: {steps}")
    start = time.perf_counter()
    result = Result(model, task, steps)
    try:
        net = load(model, task) if checkpoint else tiny.build(model, task)
    except tiny.CannotBuild as error:
        result.why = str(error)
        result.seconds = time.perf_counter() - start
        return None, result
    result.head = type(net).__name__
    found = audit(trainer_for(net, net.config.model_type, task, steps))
    result.exact, result.ratios = found.exact, found.ratios
    result.residual = max((c.residual for c in found.compared), default=None)
    result.why, result.remedy = found.cause or found.reason, found.remedy
    result.seconds = time.perf_counter() - start
    return found, result


def load(name: str, task: str) -> torch.nn.Module:
    """A pretrained model with a head for the task, from a folder or from the Hub."""
    import transformers

    from .. import hub

    tiny.architectures(task)  # refuses an unknown task
    kind = getattr(transformers, AUTO[task])
    if Path(name).is_dir():
        return kind.from_pretrained(name)
    return hub.fetch(
        f"the model {name}",
        lambda: kind.from_pretrained(name),
        instead="give a folder, or --model for a tiny model that needs no network",
    )


def trainer_for(model: torch.nn.Module, model_type: str, task: str, steps: int):
    """A plain Trainer with rows for two full windows and a short one."""
    import transformers

    transformers.set_seed(0)
    micro_batches = 2 * steps + (steps + 1) // 2 if steps > 1 else 3
    rows = [
        {name: value[i] for name, value in batch.items()}
        for seed in range(micro_batches)
        for batch in [tiny.batch(model, model_type, task, ROWS, seed=seed)]
        for i in range(ROWS)
    ]
    arguments = transformers.TrainingArguments(
        output_dir=tempfile.gettempdir(),  # the audit's copy writes elsewhere
        per_device_train_batch_size=ROWS,
        gradient_accumulation_steps=steps,
        remove_unused_columns=False,
        report_to=[],
        use_cpu=not torch.cuda.is_available(),
    )
    return transformers.Trainer(
        model=model, args=arguments, train_dataset=rows, data_collator=_stacked
    )


def _stacked(rows: list[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
