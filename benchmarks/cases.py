"""Small models of seven architectures, with the micro-batches that they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

TOKENS = 500  # in the vocabulary
PADDING = 3  # tokens at the end of each row: a mask of ones only would be dropped
SIDE, PATCH = 32, 8  # pixels

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD with momentum": partial(torch.optim.SGD, lr=0.01, momentum=0.9),
    "AdamW": torch.optim.AdamW,
    "Adafactor": torch.optim.Adafactor,
}
VARIANTS = {
    "plain": {},
    "checkpointing": {"checkpointing": True},
    "bf16": {"autocast": torch.bfloat16},
}


@dataclass(frozen=True)
class Case:
    """A model and its micro-batches, for `memory.forecast`.

    Attributes:
        name: of the architecture.
        model: a function that builds it, or the model itself.
        make_batch: builds a micro-batch of so many rows.
    """

    name: str
    model: Callable[[], nn.Module] | nn.Module
    make_batch: Callable[[int], dict[str, Tensor]]


def small(name: str, *, width: int = 32, layers: int = 2, length: int = 32) -> Case:
    """A small model of an architecture of `NAMES`, dropout as transformers has it.

    Args:
        width: of the hidden layers; each head of attention has a quarter.
        length: tokens of a row.
    """
    kind, head, sizes = _SHAPES[name](width, layers)
    return Case(name, partial(_model, kind, head, sizes), _batches(head, length))


def _model(kind: str, head: str, sizes: dict) -> nn.Module:
    import transformers

    config = getattr(transformers, f"{kind}Config")(**sizes)
    model = getattr(transformers, f"{kind}{head}")(config)
    if "LM" in head:
        model.loss_type = "ForCausalLM"  # GPT-2's is guessed so, with a warning
    return model


def _batches(head: str, length: int) -> Callable[[int], dict[str, Tensor]]:
    def batch(rows: int) -> dict[str, Tensor]:
        drawn = torch.Generator().manual_seed(rows)
        classes = torch.arange(rows) % 2
        if "Image" in head:
            pixels = torch.randn(rows, 3, SIDE, SIDE, generator=drawn)
            return {"pixel_values": pixels, "labels": classes}
        ids = torch.randint(5, TOKENS, (rows, length), generator=drawn)
        mask = torch.ones_like(ids)
        mask[:, -PADDING:] = 0
        labels = ids.masked_fill(mask == 0, -100) if "LM" in head else classes
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}

    return batch


def _usual(width: int, layers: int) -> dict:
    return {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "intermediate_size": 4 * width,
    }


def _text(kind: str, head: str, width: int, layers: int, **more):
    return kind, head, _usual(width, layers) | {"vocab_size": TOKENS} | more


def _distilbert(width: int, layers: int):
    sizes = {"dim": width, "n_layers": layers, "n_heads": 4, "hidden_dim": 4 * width}
    return "DistilBert", "ForSequenceClassification", sizes | {"vocab_size": TOKENS}


def _gpt2(width: int, layers: int):
    sizes = {"n_embd": width, "n_layer": layers, "n_head": 4, "use_cache": False}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return "GPT2", "LMHeadModel", sizes | ends | {"vocab_size": TOKENS}


def _vit(width: int, layers: int):
    pixels = {"image_size": SIDE, "patch_size": PATCH}
    return "ViT", "ForImageClassification", _usual(width, layers) | pixels


_CLASSIFIER, _WRITER = "ForSequenceClassification", "ForCausalLM"
_GROUPED = {"num_key_value_heads": 2, "use_cache": False}
_SHAPES = {
    "BERT": partial(_text, "Bert", _CLASSIFIER),
    "DistilBERT": _distilbert,
    "RoBERTa": partial(_text, "Roberta", _CLASSIFIER),
    "GPT-2": _gpt2,
    "Llama": partial(_text, "Llama", _WRITER, **_GROUPED),
    "Qwen2": partial(_text, "Qwen2", _WRITER, **_GROUPED),
    "ViT": _vit,
}
NAMES = tuple(_SHAPES)
