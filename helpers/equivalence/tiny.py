"""A tiny model of any transformers architecture for a task, and micro-batches for it."""

from __future__ import annotations

import copy
import difflib
import inspect
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from .reference import IGNORED
from .tiny_configs import (
    END,
    FIRST,
    LABELS,
    LAST,
    LENGTH,
    attempts,
    image_size,
)

MOST_WEIGHTS = 20_000_000

TASKS: dict[str, str] = {  # name of a task -> its table of heads in transformers
    "sequence-classification": "SEQUENCE_CLASSIFICATION",
    "token-classification": "TOKEN_CLASSIFICATION",
    "masked-lm": "MASKED_LM",
    "causal-lm": "CAUSAL_LM",
    "multiple-choice": "MULTIPLE_CHOICE",
    "seq2seq-lm": "SEQ_TO_SEQ_CAUSAL_LM",
    "image-classification": "IMAGE_CLASSIFICATION",
    "question-answering": "QUESTION_ANSWERING",
}
CHOICES = 3


class CannotBuild(Exception):
    """This architecture has no tiny model for the task; the message says why."""


def architectures(task: str) -> list[str]:
    """The architectures of transformers that have a head for this task, sorted.

    Raises:
        ValueError: there is no such task.
    """
    return sorted(_heads(task))


def _heads(task: str) -> dict[str, str]:
    if task not in TASKS:
        raise ValueError(f"There is no task {task!r}; {_near(task, TASKS)}.")
    names = getattr(modeling_auto, f"MODEL_FOR_{TASKS[task]}_MAPPING_NAMES")
    return {
        model_type: name if isinstance(name, str) else name[0]
        for model_type, name in names.items()
    }


def _near(word: str, known) -> str:
    close = difflib.get_close_matches(word, list(known), n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "known are " + ", ".join(list(known)[:8])


def build(model_type: str, task: str, *, seed: int = 0) -> nn.Module:
    """A tiny model of this architecture with random weights, in training mode.

    Its configuration is shrunk until the architecture takes it; dropout is 0 and there
    are 3 labels. The model has given a finite loss and a gradient on one micro-batch of
    its own. Random numbers drawn afterwards are those that would have come without it.

    Args:
        model_type: as in a model's config.json, such as "distilbert".
        task: a key of `TASKS`.
        seed: of the weights.

    Raises:
        ValueError: the task is unknown, or has no head in this architecture.
        CannotBuild: no shrunk configuration works; the sentence says why.
    """
    heads = _heads(task)
    if model_type not in heads:
        raise ValueError(
            f"transformers has no {task} head for the architecture {model_type!r}; "
            f"{_near(model_type, sorted(heads))}."
        )
    reason = "no configuration was tried"
    with _quiet():
        try:
            kind = getattr(transformers, heads[model_type])
            tries = attempts(CONFIG_MAPPING[model_type], kind.config_class, task)
        except Exception as error:
            raise CannotBuild(_sentence(model_type, task, error)) from error
        first = None
        for configure in tries:
            try:
                with _seeded(seed):
                    return _tried(kind, configure(), model_type, task)
            except Exception as error:
                first = first or error
    reason = _sentence(model_type, task, first)
    raise CannotBuild(reason) from first


def _tried(kind, config, model_type: str, task: str) -> nn.Module:
    """Build the model, and let a copy of it give a loss and a gradient."""
    _refuse_large(kind, config)
    torch.manual_seed(torch.initial_seed())
    model = kind(config).float().train()
    twin = copy.deepcopy(model)
    loss = twin(**batch(twin, model_type, task, 2, seed=0)).loss
    if loss is None:
        raise CannotBuild("its forward gives no loss when it is called with labels")
    if loss.numel() != 1:
        raise CannotBuild(f"its loss is not one number: shape {tuple(loss.shape)}")
    if not torch.isfinite(loss).all():
        raise CannotBuild(f"its loss is {loss.item()}")
    loss.backward()
    slopes = [p.grad for p in twin.parameters() if p.grad is not None]
    if not any(slope.any() for slope in slopes):
        raise CannotBuild("its loss has no gradient")
    if not all(torch.isfinite(slope).all() for slope in slopes):
        raise CannotBuild("its gradient is not finite")
    return model


def _refuse_large(kind, config) -> None:
    try:
        with torch.device("meta"):
            weights = sum(p.numel() for p in kind(copy.deepcopy(config)).parameters())
    except Exception:
        return  # the constructor needs real tensors, or will say itself what it lacks
    if weights > MOST_WEIGHTS:
        raise CannotBuild(
            f"even the smallest configuration has {weights:,} weights, "
            f"more than {MOST_WEIGHTS:,}"
        )


def _sentence(model_type: str, task: str, error: Exception) -> str:
    said = " ".join(str(error).split()).rstrip(".")
    if not isinstance(error, CannotBuild):
        said = f"transformers said {type(error).__name__}: {said}"
    if len(said) > 300:
        said = said[:297] + "..."
    return f"No tiny {model_type} for {task}: {said}."


def batch(
    model: nn.Module, model_type: str, task: str, rows: int, *, seed: int
) -> dict[str, Tensor]:
    """One random micro-batch that this model takes, with labels, on the CPU.

    Heads that label tokens get rows with unequal numbers of targets, and micro-batches
    of seeds that follow one another differ in how many targets they hold.

    Args:
        model: from `build`.
        model_type: the architecture it was built from.
        task: a key of `TASKS`.
        rows: examples in the micro-batch.
        seed: of the inputs and labels.
    """
    _heads(task)
    dice = torch.Generator().manual_seed(seed)
    if task == "image-classification":
        return _images(model, rows, dice)
    lead = (rows, CHOICES) if task == "multiple-choice" else (rows,)
    length = getattr(model, "tiny_length", LENGTH)
    tokens = torch.randint(FIRST, LAST + 1, (*lead, length), generator=dice)
    tokens[..., -1] = END
    made = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if task in ("sequence-classification", "multiple-choice"):
        made["labels"] = torch.randint(LABELS, (rows,), generator=dice)
    elif task == "question-answering":
        tokens[:, [2, 4]] = END  # some heads look for the end of the question
        made["start_positions"] = torch.randint(5, 8, (rows,), generator=dice)
        made["end_positions"] = torch.randint(8, 11, (rows,), generator=dice)
    else:
        made["labels"] = _token_labels(tokens, task, seed, dice)
    return _suited(made, model)


def _token_labels(tokens: Tensor, task: str, seed: int, dice) -> Tensor:
    rows, length = tokens.shape
    labels = tokens.clone()
    if task == "token-classification":
        labels = torch.randint(LABELS, (rows, length), generator=dice)
    elif task == "seq2seq-lm":
        labels = torch.randint(FIRST, LAST + 1, (rows, length), generator=dice)
    for row in range(rows):
        targets = 2 + 2 * (seed % 4) + (seed // 4 + row) % 3
        order = 1 + torch.randperm(length - 1, generator=dice)
        if task == "causal-lm":  # the prompt is at the start of the row
            order = torch.arange(length - 1, -1, -1)
        elif task == "seq2seq-lm":  # padding is at its end
            order = torch.arange(length)
        hidden = torch.ones(length, dtype=torch.bool)
        hidden[order[:targets]] = False
        labels[row, hidden] = IGNORED
    return labels


def _images(model: nn.Module, rows: int, dice) -> dict[str, Tensor]:
    channels, height, width = image_size(model.config)
    pixels = torch.randn(rows, channels, height, width, generator=dice)
    labels = torch.randint(LABELS, (rows,), generator=dice)
    return {"pixel_values": pixels, "labels": labels}


def _suited(made: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Rename, drop or add what the forward of this model takes."""
    takes = inspect.signature(model.forward).parameters
    tokens = made["input_ids"]
    if "input_ids" not in takes and "inputs" in takes:
        made["inputs"] = made.pop("input_ids")
    if "bbox" in takes:
        made["bbox"] = torch.zeros(*tokens.shape, 4, dtype=torch.long)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in takes.values())
    return {k: v for k, v in made.items() if k in takes or open_ended}


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Draw from this seed, and put back where every generator stood."""
    state, arrays = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(state)
            np.random.set_state(arrays)


@contextmanager
def _quiet() -> Iterator[None]:
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers.logging.set_verbosity(level)
