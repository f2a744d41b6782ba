"""Published memory of real GPU runs beside the forecast of the same training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from benchmarks.report import Check, Part, Setting, Spread
from helpers import memory

# Hugging Face, "Efficient Training on a Single GPU" as of
# transformers 4.21: nvidia-smi of a V100, less the 1343 MiB before the model.
HF = "https://huggingface.co/docs/transformers/v4.21.0/perf_train_gpu_one"
# S. Raschka, logs of torch.cuda.max_memory_reserved, ViT-L/16 at 224 × 224.
RASBT = "https://github.com/rasbt/pytorch-memory-optim"
BEFORE = 1343 * 2**20
GB = 10**9


@dataclass(frozen=True)
class Figure:
    """What was published of a run, and how to forecast the same.

    Attributes:
        size: bytes.
        model: a key of `_MODELS`.
        rows, steps: micro-batch and accumulation steps.
        half: all weights in bfloat16.
    """

    what: str
    source: str
    size: int
    model: str
    rows: int
    steps: int = 1
    optimizer: str = "AdamW"
    checkpointing: bool = False
    half: bool = False


def _mib(shown: int) -> int:
    return shown * 2**20 - BEFORE


_BERT, _VIT = "bert-large, 512 tokens", "ViT-L/16"
FIGURES = (
    Figure("micro-batch 4", HF, _mib(14949), _BERT, 4),
    Figure("1 × 4 accumulated", HF, _mib(8681), _BERT, 1, 4),
    Figure("the same, checkpointing", HF, _mib(6775), _BERT, 1, 4, checkpointing=True),
    Figure("float32, micro-batch 64", RASBT, int(26.84 * GB), _VIT, 64),
    Figure("bf16 weights, 64", RASBT, int(13.82 * GB), _VIT, 64, half=True),
    Figure("bf16 weights, 16", RASBT, int(5.69 * GB), _VIT, 16, half=True),
    Figure("bf16 weights, 4 × 4", RASBT, int(3.91 * GB), _VIT, 4, 4, half=True),
    Figure("the same, SGD", RASBT, int(2.02 * GB), _VIT, 4, 4, "SGD", half=True),
)


def run(setting: Setting) -> Part:
    """Forecast each published run that takes seconds; one forecast serves several."""
    part = Part(
        "Published runs on GPUs beside their forecast",
        "The published bytes are what an allocator reserved or nvidia-smi showed, less "
        "what it showed before; other versions of the libraries, other kernels. The "
        f"forecast counts live tensors with the kernels of a {setting.device.type}. "
        "So the ratio says how far apart the two are, not an error of either. "
        "BERT's attention is eager, as that version had it, ViT's PyTorch's own.",
        ["model", "run", "published GiB", "forecast GiB", "ratio", "source"],
    )
    figures = FIGURES[:1] if setting.quick else FIGURES
    forecasts, ratios = {}, []
    for figure in figures:
        key = figure.model, figure.optimizer, figure.checkpointing, figure.half
        if key not in forecasts:
            forecasts[key] = _forecast(*key, setting)
        told = forecasts[key].peak(figure.rows, figure.steps)
        ratios.append(told / figure.size)
        where = f"[{figure.source.split('/')[2]}]({figure.source})"
        part.rows.append(
            [figure.model, f"{figure.what}, {figure.optimizer}", figure.size / 2**30,
             told / 2**30, ratios[-1], where]
        )  # fmt: skip
    what = "forecast of live tensors, as a share of the published bytes"
    part.checks.append(Check(what, Spread.of(ratios), unit=" ×"))
    return part


def _forecast(model, optimizer, checkpointing, half, setting):
    make_model, make_batch = _MODELS[model]
    dtype = torch.bfloat16 if half else torch.float32
    made = torch.optim.AdamW if optimizer == "AdamW" else partial(torch.optim.SGD, lr=1)
    return memory.forecast(
        partial(make_model, dtype),
        partial(make_batch, dtype),
        partial(made, foreach=True),  # the default on a GPU
        checkpointing=checkpointing,
        device=setting.device,
    )


def _bert(dtype: torch.dtype) -> torch.nn.Module:
    return _built(
        "Bert", "ForSequenceClassification", dtype, attn_implementation="eager",
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
        intermediate_size=4096,
    )  # fmt: skip


def _vit(dtype: torch.dtype) -> torch.nn.Module:
    return _built(
        "ViT", "ForImageClassification", dtype, attn_implementation="sdpa",
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
        intermediate_size=4096,
    )  # fmt: skip


def _built(kind: str, head: str, dtype: torch.dtype, **sizes) -> torch.nn.Module:
    import transformers

    config = getattr(transformers, f"{kind}Config")(**sizes)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        return getattr(transformers, f"{kind}{head}")(config)
    finally:
        torch.set_default_dtype(before)


def _text(dtype: torch.dtype, rows: int) -> dict[str, torch.Tensor]:
    return {
        "input_ids": torch.ones(rows, 512, dtype=torch.long),
        "labels": torch.arange(rows) % 2,
    }


def _images(dtype: torch.dtype, rows: int) -> dict[str, torch.Tensor]:
    pixels = torch.zeros(rows, 3, 224, 224, dtype=dtype)
    return {"pixel_values": pixels, "labels": torch.arange(rows) % 2}


_MODELS = {_BERT: (_bert, _text), _VIT: (_vit, _images)}
