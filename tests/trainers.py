"""Small models, rows and Trainers for the tests of the audit."""

from __future__ import annotations

import tempfile

import torch
import transformers
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
