"""The models that the lessons train: tiny ones made here, or DistilBERT."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from helpers import data, hub, runtime

if TYPE_CHECKING:
    from transformers import DistilBertForSequenceClassification, LlamaForCausalLM

# The layers that a classifier adds to the pre-trained body.
HEAD = ("pre_classifier.", "classifier.")
# Tickets are cut at 64 tokens; a lesson on longer texts has room up to here.
POSITIONS = 128


def classifier(
    name: str = "tiny", *, seed: int = 0, dropout: float = 0.0, num_labels: int = 2
) -> DistilBertForSequenceClassification:
    """A DistilBERT that sorts texts into `num_labels` classes, in float32 on the CPU.

    "tiny" is one layer of width 64 with the vocabulary of the tickets: about 78,000
    weights, all drawn from `seed`. "distilbert" is distilbert/distilbert-base-cased
    from the Hub, about 66 million, of which only the head is drawn. The same seed gives
    the same weights, and the global random state is left as it was.

    `dropout` is the probability used everywhere in the model. It is 0 unless you ask,
    so that two ways to compute a gradient can be compared.

    Raises:
        ValueError: no such model, or a number out of range.
        HubUnavailable: the Hub is needed and cannot be reached.
    """
    if name not in ("tiny", "distilbert"):
        raise ValueError(f'There is no model {name!r}: take "tiny" or "distilbert".')
    settings = _settings(dropout, num_labels)
    with _seeded(seed):
        if name == "tiny":
            return _tiny(settings)
        return hub.fetch(
            data.DISTILBERT,
            lambda: _pretrained(settings),
            instead='models.classifier("tiny")',
        )


def language_model(*, seed: int = 0, dropout: float = 0.0) -> LlamaForCausalLM:
    """A causal language model of the tickets' vocabulary, in float32 on the CPU.

    One Llama layer of width 64, about 100,000 weights, all drawn from `seed`; the
    global random state is left as it was. Called with `labels`, which are the
    `input_ids` (-100 where nothing is to be learned), it gives the mean loss of the
    labels after the first of each row: the loss is shifted by one.

    `dropout` is the probability on the attention, the only place where Llama has one.

    Raises:
        ValueError: `dropout` is out of range.
    """
    _check(dropout)
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = data.tickets_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=4,
        max_position_embeddings=POSITIONS,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
        attention_dropout=dropout,
        use_cache=False,  # keys and values are for writing, not for training
    )
    with _seeded(seed):
        return LlamaForCausalLM(config)


def _tiny(settings: dict[str, Any]) -> DistilBertForSequenceClassification:
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    tokenizer = data.tickets_tokenizer()
    config = DistilBertConfig(
        vocab_size=len(tokenizer),
        dim=64,
        n_layers=1,
        n_heads=4,
        hidden_dim=128,
        max_position_embeddings=POSITIONS,
        pad_token_id=tokenizer.pad_token_id,
        **settings,
    )
    return DistilBertForSequenceClassification(config)


def _pretrained(settings: dict[str, Any]) -> DistilBertForSequenceClassification:
    import torch
    from transformers import DistilBertForSequenceClassification

    # Keeps back the warning that the head is new: it always is, and is checked.
    with runtime.without_advice():
        model, report = DistilBertForSequenceClassification.from_pretrained(
            data.DISTILBERT, dtype=torch.float32, output_loading_info=True, **settings
        )
    missing = [key for key in report["missing_keys"] if not key.startswith(HEAD)]
    if missing or report["mismatched_keys"]:
        raise ValueError(
            f"The files of {data.DISTILBERT} lack weights of the body, {missing[:1]} "
            "among them: delete its folder in the cache and load again."
        )
    return model


def _settings(dropout: float, num_labels: int) -> dict[str, Any]:
    _check(dropout)
    try:
        labels = operator.index(num_labels)
    except TypeError:
        labels = 0
    if labels < 2:
        raise ValueError(
            f"num_labels is {num_labels}, and has to be a whole number, 2 or more."
        )
    return {
        "num_labels": labels,
        "dropout": dropout,
        "attention_dropout": dropout,
        "seq_classif_dropout": dropout,
    }


def _check(dropout: float) -> None:
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout is {dropout}, and has to be from 0 to below 1.")


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Draws from `seed` inside; puts the CPU's random state back after."""
    import torch

    # Weights are drawn on the CPU, and torch.manual_seed would seed the GPUs as well.
    state = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)
