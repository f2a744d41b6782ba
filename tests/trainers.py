"""Small models, rows and Trainers for the tests of the audit."""

from __future__ import annotations

import tempfile

import torch
import transformers
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import IterableDataset, SequentialSampler

VOCABULARY, LENGTH, CLASSES = 120, 16, 3


def distilbert(kind="ForSequenceClassification", seed=0, **changed):
    transformers.set_seed(seed)
    config = transformers.DistilBertConfig(
        vocab_size=VOCABULARY,
        dim=32,
        n_layers=2,
        n_heads=4,
        hidden_dim=64,
        max_position_embeddings=64,
        **{"num_labels": CLASSES, **changed},
    )
    return getattr(transformers, f"DistilBert{kind}")(config)


def bert(kind="ForSequenceClassification", seed=0, **changed):
    transformers.set_seed(seed)
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        **{"num_labels": CLASSES, **changed},
    )
    return getattr(transformers, f"Bert{kind}")(config)


def llama(kind="ForCausalLM", seed=0, family="Llama", **changed):
    transformers.set_seed(seed)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        pad_token_id=0,
        **{"num_labels": CLASSES, **changed},
    )
    return getattr(transformers, f"{family}{kind}")(config)


def factor(model, steps=4):
    """How many times too long this version makes the gradient of a head.

    Asked of the head itself: k where it takes a count and its loss does not change with
    it, as the Trainer then leaves the division to it; else 1.
    """
    made = trainer(model, classified(4))
    if not made.model_accepts_loss_kwargs:
        return 1
    batch = {name: value[None] for name, value in classified(1)[0].items()}
    if getattr(model.config, "problem_type", None):
        batch["labels"] = torch.full((1, model.config.num_labels), 0.5)
    with torch.no_grad():
        model.eval()
        plain, counted = (
            model(**batch, **count).loss for count in ({}, {"num_items_in_batch": 7})
        )
        model.train()
    return steps if torch.equal(plain, counted) else 1


def classified(count, seed=1, labels=None):
    """Rows of token numbers, with one class each, or with `labels` (count, ...)."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, VOCABULARY, (count, LENGTH), generator=generator)
    if labels is None:
        labels = torch.randint(0, CLASSES, (count,), generator=generator)
    mask = torch.ones(LENGTH, dtype=torch.long)
    return [
        {"input_ids": a, "attention_mask": mask, "labels": b}
        for a, b in zip(ids, labels, strict=True)
    ]


def tokens(counts, seed=1, classes=VOCABULARY):
    """Rows whose last `counts[i]` tokens count in the loss; the others are -100."""
    rows = classified(len(counts), seed)
    for row, count in zip(rows, counts, strict=True):
        row["labels"] = row["input_ids"] % classes
        row["labels"][: LENGTH - count] = -100
    return rows


class Stream(IterableDataset):
    """Rows with no length."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter(self.rows)


def trainer(
    model,
    rows,
    micro_batch=4,
    steps=4,
    kind=None,
    made=None,
    in_order=False,
    **arguments,
):
    """A Trainer on the CPU; `arguments` go to TrainingArguments, `made` to itself."""
    options = transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(prefix="course-test-"),
        use_cpu=True,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=steps,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        **arguments,
    )
    kind = kind or transformers.Trainer
    if in_order:

        class InOrder(kind):
            def _get_train_sampler(self, *_, **__):
                return SequentialSampler(self.train_dataset)

        kind = InOrder
    return kind(model=model, args=options, train_dataset=rows, **(made or {}))


class MeanLoss(transformers.Trainer):
    def compute_loss(
        self, model, inputs, return_outputs=False, num_items_in_batch=None
    ):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = cross_entropy(outputs["logits"], labels)
        return (loss, outputs) if return_outputs else loss


class DividesByCount(MeanLoss):
    def compute_loss(
        self, model, inputs, return_outputs=False, num_items_in_batch=None
    ):
        labels = inputs.pop("labels")
        logits = model(**inputs)["logits"]
        return cross_entropy(logits, labels, reduction="sum") / num_items_in_batch


class Coupled(nn.Module):
    """Batch normalisation, in-batch negatives, or neither."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.kind = kind
        self.first = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8) if kind == "norm" else nn.Identity()
        self.last = nn.Linear(8, 3)

    def forward(self, x, labels=None):
        hidden = self.norm(self.first(x)).tanh()
        logits = self.last(hidden)
        if labels is None:
            return {"logits": logits}
        if self.kind == "pairs":
            loss = cross_entropy(hidden @ hidden.roll(1, 1).T, torch.arange(len(x)))
        else:
            loss = cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


class Counted(Coupled):
    """A model that takes a count and drops it."""

    def __init__(self):
        super().__init__("none")

    def forward(self, x, labels=None, **dropped):
        return super().forward(x, labels)


def features(count):
    generator = torch.Generator().manual_seed(3)
    return [
        {"x": torch.randn(6, generator=generator), "labels": torch.tensor(i % 3)}
        for i in range(count)
    ]
