"""Shrink the configuration of any transformers architecture to a few thousand weights."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import Any

from transformers import PretrainedConfig

VOCABULARY, LENGTH, LABELS, IMAGE = 120, 12, 3, 32
PAD, START, END = 0, 1, 2  # token ids; random text takes neither of them
FIRST, LAST = 3, 89  # range of the random text; special ids of images lie above it

# Name of a field -> the most it may be. The first pattern that fits the whole name wins.
CEILINGS: tuple[tuple[str, int], ...] = (
    (r"(n|num)_(expert_)?groups?|topk_group|num_expert_group", 1),
    (r".*num_kv_shared_layers|num_nextn_predict_layers|.*mtp_num.*layers", 0),
    (r"(first_k_dense_replace|num_dense_layers|.*shared_experts)", 1),
    (r".*experts_per_tok(en)?|.*top_?k(_experts)?|moe_k|num_selected_experts", 2),
    (r"(n|num|moe_num)_(local_|routed_|real_|zero_)?experts", 4),
    (r"mamba_(n|num)_heads|mamba_(d_head|head_dim)", 8),
    (r".*num_key_heads", 2),
    (r".*(key_value|kv)_heads", 2),
    (r".*qk_head_dim", 16),
    (r".*(head_dim|d_kv|dim_head|d_head|kv_channels|dim_key|head_size)", 8),
    (r"(.*_)?(n|num|attention|encoder_attention|decoder_attention)_heads?", 4),
    (r".*attention_heads", 4),
    (r"(.*_)?(n|num)_(.*_)?(layers?|blocks|hidden_layers)", 2),
    (r"(.*_)?(encoder|decoder)_layers|depth|num_hidden_groups", 2),
    (r"(.*_)?(vocab_size|vocab|vocab_size_per_layer_input|vocab_offset)", VOCABULARY),
    (r"(.*_)?(max_(2d_)?position_embeddings|n_positions|n_ctx|max_seq_len)", 128),
    (r"max_(source|target)_positions|num_position_embeddings|model_max_length", 64),
    (r".*(intermediate_size|ffn_dim|ffn_hidden_size|intermediate_size_mlp)", 64),
    (r"d_ff|dff|dim_ff|d_inner|hidden_dim|feed_forward_size|mamba_d_ssm", 64),
    (r".*(lora_rank|lowrank)", 16),
    (r"(mamba_d_state|state_size|ssm_state_size)", 8),
    (r"(time_step_rank|mamba_dt_rank)", 4),
    (r".*(hidden_size|d_model|embed_dim|embedding_size|emb_dim|embedding_dim)", 32),
    (r"dim|n_embd|d_embed|projection_dim|width|.*(projection|pooler_output)_size", 32),
    (r"(.*_)?hidden_size_.*|.*hidden_size", 32),
    (r"input_size|image_size", IMAGE),
    (r"patch_size", 8),
)
DOUBLING = r"(hidden_sizes|embed_dims?|encoder_hidden_size|.*channels)"
FEWER = r"(.*depths?|num_block_repeats|layers|block_sizes)"


def fields(config: PretrainedConfig) -> dict[str, Any]:
    """The fields that the constructor of this configuration takes, with its values."""
    kind = type(config)
    names = set(inspect.signature(kind.__init__).parameters)
    if dataclasses.is_dataclass(kind):
        names |= {field.name for field in dataclasses.fields(kind)}
    inherited = {f for f in vars(PretrainedConfig()) if not f.endswith("token_id")}
    return {
        name: value
        for name, value in vars(config).items()
        if name in names and name not in inherited and not name.startswith("_")
    }


def smaller(config: PretrainedConfig, gentle: bool = False) -> dict[str, Any]:
    """Arguments that make this configuration a tiny one, sub-configurations too.

    Args:
        config: the configuration with its defaults.
        gentle: leave lists and the sizes of heads and images as they are.
    """
    found: dict[str, Any] = {}
    values = fields(config)
    heads = values.get("num_attention_heads") or values.get("n_heads")
    special = LAST
    for name, value in values.items():
        if isinstance(value, PretrainedConfig):
            found[name] = smaller(value, gentle) | {"model_type": value.model_type}
        elif re.search(r"drop|_prob$|jitter", name) and isinstance(value, float):
            found[name] = 0.0
        elif re.fullmatch(r"(pad|bos|eos|decoder_start)_token_id", name):
            continue
        elif re.search(r"_(token_id|token_index|index)$", name):
            if isinstance(value, int) and value >= FIRST:
                special += 1
                found[name] = special
        elif isinstance(value, bool):
            continue
        elif isinstance(value, int):
            most = _ceiling(name)
            if most is not None and not (gentle and "head_dim" in name):
                found[name] = min(value, most)
            if re.search(r"(key_value|kv)_heads$", name) and value == heads:
                found[name] = 4
        elif isinstance(value, (list, tuple)) and value and not gentle:
            cut = _cut(name, list(value))
            if cut is not None:
                found[name] = cut
    if "vocab_size" in found or "decoder_start_token_id" in values:
        found |= {"pad_token_id": PAD, "bos_token_id": START, "eos_token_id": END}
    if "decoder_start_token_id" in values:
        start = values["decoder_start_token_id"]
        found["decoder_start_token_id"] = min(start or PAD, END)
    if "sep_token_id" in values:
        found["sep_token_id"] = END
    return found | _rotary(values, found)


def _ceiling(name: str) -> int | None:
    return next((most for p, most in CEILINGS if re.fullmatch(p, name)), None)


def _cut(name: str, value: list) -> list | None:
    if not all(type(item) is int for item in value):
        return None
    if name == "image_size":
        return [IMAGE] * len(value)
    if re.fullmatch(FEWER, name):
        return [1] * len(value)
    if re.fullmatch(DOUBLING, name):
        return [min(item, 16 * 2**i) for i, item in enumerate(value)]
    if re.fullmatch(r"num_(attention_)?heads", name):
        return [min(item, 2**i) for i, item in enumerate(value)]
    return None


def _rotary(values: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Rotary settings whose lists have one entry per pair of a head's dimensions."""
    half = found.get("head_dim", 8) // 2
    changed = {}
    for name in ("rope_parameters", "rope_scaling"):
        rope = values.get(name)
        if isinstance(rope, dict):
            new = {key: _per_pair(key, item, half) for key, item in rope.items()}
            if new != rope:
                changed[name] = new
    return changed


def _per_pair(key: str, item: Any, half: int) -> Any:
    if isinstance(item, dict):
        return {k: _per_pair(k, i, half) for k, i in item.items()}
    if key == "mrope_section":
        return [half - 2 * (half // 3), half // 3, half // 3]
    if key in ("short_factor", "long_factor") and item:
        return list(item[:half])
    return item


def attempts(
    outer: type[PretrainedConfig], inner: type[PretrainedConfig], task: str
) -> list[Callable[[], PretrainedConfig]]:
    """Ways to a tiny configuration, the smallest first; each may raise an error.

    Args:
        outer: the configuration class of the architecture.
        inner: that of the head: the same class, or the one of its text part.
        task: a key of `TASKS`.
    """
    return [
        lambda gentle=gentle: _configuration(outer, inner, task, gentle)
        for gentle in (False, True)
    ]


def _configuration(outer, inner, task: str, gentle: bool) -> PretrainedConfig:
    default = outer()
    settings = smaller(default, gentle)
    settings |= EXCEPTIONS.get(default.model_type, {})
    settings |= {"num_labels": LABELS, "problem_type": None}
    if "classification" in task:
        settings["problem_type"] = "single_label_classification"
    if task == "causal-lm" and hasattr(default, "is_decoder"):
        settings["is_decoder"] = True
    config = outer(**settings)
    if not isinstance(config, inner):
        config = config.get_text_config()
    config.pad_token_id = getattr(config, "pad_token_id", None) or PAD
    config.num_labels = LABELS
    return config


def image_size(config: PretrainedConfig) -> tuple[int, int, int]:
    """Channels, height and width of the images that this configuration describes."""
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", None) or IMAGE
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return getattr(vision, "num_channels", 3) or 3, height, width


EXCEPTIONS: dict[str, dict[str, Any]] = {}
