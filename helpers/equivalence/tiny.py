"""A tiny model of any transformers architecture for a task, and its micro-batches."""

from __future__ import annotations

import copy
import difflib
import inspect
import random
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from .reference import IGNORED
from .tiny_configs import END, FIRST, LABELS, LAST, LENGTH, configuration, image_size

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
OTHER_INPUTS = {  # architectures whose forward needs more than text or an image
    "gemma4_assistant": "the keys and values of another model",
    "gemma4_unified_assistant": "the keys and values of another model",
    "lxmert": "the features of regions of an image",
    "musicgen": "several codebooks of audio tokens",
    "musicgen_melody": "several codebooks of audio tokens",
    "shieldgemma2": "an image together with a prompt",
    "voxtral_realtime": "audio together with text",
}


class CannotBuild(Exception):
    """This architecture has no tiny model for the task; the message says why."""


def architectures(task: str) -> list[str]:
    """The architectures of transformers that have a head for this task, sorted."""
    return sorted(_heads(task))


def _heads(task: str) -> dict[str, str]:
    if task not in TASKS:
        raise ValueError(f"There is no task {task!r}; {_near(task, TASKS)}.")
    names = getattr(modeling_auto, f"MODEL_FOR_{TASKS[task]}_MAPPING_NAMES")
    return {k: name if isinstance(name, str) else name[0] for k, name in names.items()}


def _near(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, known := list(known), cutoff=0.5)
    if close:
        return f"the nearest are {', '.join(close)}"
    return f"there are {', '.join(known[:8])}{' and more' * (len(known) > 8)}"


def build(model_type: str, task: str, *, seed: int = 0) -> nn.Module:
    """A tiny model of this architecture with random weights, in training mode.

    Dropout is 0 and there are 3 labels, or 2 for the start and the end of an answer. A
    copy has given a finite loss and a gradient. The caller's random state is kept.

    Args:
        model_type: as in a model's config.json, such as "distilbert".
        task: a key of `TASKS`.
        seed: of the weights.

    Raises:
        ValueError: no such task, or it has no head in this architecture.
        CannotBuild: no shrunk configuration works; the sentence says why.
    """
    heads = _heads(task)
    if model_type not in heads:
        raise ValueError(
            f"transformers has no {task} head for the architecture {model_type!r}; "
            f"{_near(model_type, sorted(heads))}."
        )
    with _apart(seed):
        first = None
        for gentle in (False, True):
            try:
                kind = getattr(transformers, heads[model_type])
                outer = CONFIG_MAPPING[model_type]
                config = configuration(outer, kind.config_class, task, gentle)
                return _tried(kind, config, model_type, task, seed)
            except Exception as error:
                first = first or error
    raise CannotBuild(_sentence(model_type, task, first)) from first


def _tried(kind, config, model_type: str, task: str, seed: int) -> nn.Module:
    """Build the model, and let a copy of it give a loss and a gradient."""
    weights = 0
    with suppress(Exception), torch.device("meta"):  # some ask for real tensors
        weights = sum(p.numel() for p in kind(copy.deepcopy(config)).parameters())
    if weights > MOST_WEIGHTS:
        raise CannotBuild(f"the smallest configuration has {weights:,} weights")
    torch.default_generator.manual_seed(seed)
    model = kind(config).float().train()
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
    twin = copy.deepcopy(model)
    loss = getattr(twin(**batch(twin, model_type, task, 2, seed=0)), "loss", None)
    if loss is None:
        raise CannotBuild("its forward gives no loss when it is called with labels")
    if loss.numel() != 1 or not loss.isfinite().all():
        raise CannotBuild(f"its loss is not one finite number: {loss.tolist()}")
    loss.backward()
    slopes = [p.grad for p in twin.parameters() if p.grad is not None]
    size = sum(slope.abs().sum() for slope in slopes)
    if not 0 < size < float("inf"):
        raise CannotBuild("its gradient is zero or not finite")
    return model


def _sentence(model_type: str, task: str, error: Exception) -> str:
    said = " ".join(str(error).split()) or type(error).__name__
    library = re.search(r"requires the (\S+) library", said)
    if model_type in OTHER_INPUTS:
        said = f"it takes {OTHER_INPUTS[model_type]}, which no micro-batch here holds"
    elif library:
        said = f"it needs the package {library[1]}, which is not installed"
    elif not isinstance(error, CannotBuild):
        said = re.sub(r"^Class validation error .*?: \w+: ", "", said)
        said = f"transformers refuses its configuration or inputs: {said}"
    said = textwrap.shorten(said.split(". ")[0].rstrip("."), 240, placeholder=" ...")
    return f"No tiny {model_type} for {task}: {said}."


def batch(
    model: nn.Module, model_type: str, task: str, rows: int, *, seed: int
) -> dict[str, Tensor]:
    """One random micro-batch that this model takes, with labels, on the CPU.

    Labels of tokens count in unequal numbers per row, 2 at least, and the micro-batches
    of two seeds in a row hold unequal numbers of targets.

    Args:
        model: from `build`.
        model_type: the architecture it was built from.
        task: a key of `TASKS`.
        rows: examples in the micro-batch.
        seed: of the inputs and labels.
    """
    _heads(task)
    dice = torch.Generator().manual_seed(seed)
    takes = inspect.signature(model.forward).parameters
    if task == "image-classification":
        return _images(model, takes, rows, dice)
    lead = (rows, LABELS) if task == "multiple-choice" else (rows,)
    tokens = torch.randint(FIRST, _last(model) + 1, (*lead, LENGTH), generator=dice)
    tokens[..., -1] = END
    if task in ("multiple-choice", "question-answering"):
        tokens[..., [2, 4]] = END  # some heads look for the end of the question
    made = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if task in ("sequence-classification", "multiple-choice"):
        made["labels"] = torch.randint(LABELS, (rows,), generator=dice)
    elif task == "question-answering":
        made["start_positions"] = torch.randint(5, 8, (rows,), generator=dice)
        made["end_positions"] = torch.randint(8, 11, (rows,), generator=dice)
    else:
        made["labels"] = _token_labels(tokens, task, seed, dice)
    return _suited(made, model, takes)


def _last(model: nn.Module) -> int:
    """The highest id of random text: in the vocabulary, and below the special ids."""
    words = getattr(model.config.get_text_config(), "vocab_size", None)
    return min(LAST, words - 8) if words else LAST


def _token_labels(tokens: Tensor, task: str, seed: int, dice) -> Tensor:
    rows, length = tokens.shape
    labels = tokens.clone()
    if task == "token-classification":
        labels = torch.randint(LABELS, (rows, length), generator=dice)
    elif task == "seq2seq-lm":
        labels = torch.randint(FIRST, LAST + 1, (rows, length), generator=dice)
    for row in range(rows):
        order = torch.randperm(length, generator=dice)
        if task == "causal-lm":  # the prompt is at the start of the row
            order = torch.arange(length - 1, -1, -1)
        elif task == "seq2seq-lm":  # padding is at its end
            order = torch.arange(length)
        targets = 2 + 2 * (seed % 4) + (seed // 4 + row) % 3
        labels[row, order[targets:]] = IGNORED
    return labels


def _images(model: nn.Module, takes, rows: int, dice) -> dict[str, Tensor]:
    labels = torch.randint(LABELS, (rows,), generator=dice)
    if "pixel_values" not in takes and "input_ids" in takes:  # takes colours as tokens
        tokens = torch.randint(FIRST, _last(model), (rows, LENGTH), generator=dice)
        return {"input_ids": tokens, "labels": labels}
    pixels = torch.randn(rows, *image_size(model.config), generator=dice)
    name = "pixel_values" if "pixel_values" in takes else "inputs"
    made = {name: pixels, "labels": labels}
    if "spatial_shapes" in takes:  # takes a list of flat patches
        side = model.config.vision_config.patch_size
        patches = nn.functional.unfold(pixels, side, stride=side).transpose(1, 2)
        grid = torch.tensor([[size // side for size in pixels.shape[2:]]] * rows)
        made |= {"pixel_values": patches, "spatial_shapes": grid}
        made["pixel_attention_mask"] = torch.ones(patches.shape[:2])
    return made


def _suited(made: dict[str, Tensor], model: nn.Module, takes) -> dict[str, Tensor]:
    """Rename, drop or add what the forward of this model takes."""
    tokens = made["input_ids"]
    if "input_ids" not in takes and "inputs" in takes:
        made["inputs"] = made.pop("input_ids")
    if model.config.model_type == "git":  # captions an image
        made["pixel_values"] = torch.zeros(len(tokens), *image_size(model.config))
    if "bbox" in takes:
        made["bbox"] = torch.zeros(*tokens.shape, 4, dtype=torch.long)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in takes.values())
    return {k: v for k, v in made.items() if k in takes or open_ended}


@contextmanager
def _apart(seed: int) -> Iterator[None]:
    """Silent, drawing from this seed; afterwards every generator is where it was."""
    level = transformers.logging.get_verbosity()
    state, arrays = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers.logging.set_verbosity_error()
        for start in (random.seed, np.random.seed, torch.default_generator.manual_seed):
            start(seed)
        try:
            yield
        finally:
            transformers.logging.set_verbosity(level)
            random.setstate(state)
            np.random.set_state(arrays)
