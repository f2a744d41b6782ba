"""Shrink the configuration of any transformers architecture to few weights."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

from transformers import PretrainedConfig

VOCABULARY, LENGTH, LABELS, IMAGE = 120, 12, 3, 64
PAD, START, END = 0, 1, 2  # token ids; random text takes neither of them
FIRST, LAST = 3, 89  # range of the random text; special ids of images lie above it

# Name of a field -> the most it may be. The first pattern that fits all of it wins.
CEILINGS: tuple[tuple[str, int], ...] = (
    (r"(n|num)_(expert_)?groups?|topk_group|num_expert_group", 1),
    (r".*num_kv_shared_layers|num_nextn_predict_layers|.*mtp_num.*layers", 0),
    (r"first_k_dense_replace|num_dense_layers|.*shared_experts", 1),
    (r".*experts_per_tok(en)?|.*top_?k(_experts)?|moe_k|num_selected_experts", 2),
    (r"(n|num|moe_num)_(local_|routed_)?experts|zero_expert_num", 4),
    (r"mamba_(n|num)_heads|mamba_(d_head|head_dim)", 8),
    (r".*(num_key|key_value|kv)_heads", 2),
    (r".*qk_head_dim", 16),
    (r".*(head_dim|d_kv|dim_head|d_head|kv_channels|dim_key|head_size)", 8),
    (r"rotary_dim|window_size|attention_window|(mamba_)?chunk_size|block_size", 8),
    (r"(.*_)?(n|num|attention)_heads?", 4),
    (r"num_encoder_blocks", 4),  # the stages of an image network, as in its lists
    (r"(.*_)?(n|num)_(.*_)?(layers?|blocks|hidden_layers)", 2),
    (r"(.*_)?(encoder|decoder)_layers|depth|num_hidden_groups", 2),
    (r"(.*_)?(vocab_size|vocab|vocab_size_per_layer_input|vocab_offset)", VOCABULARY),
    (r"(.*_)?(max_(2d_)?position_embeddings|n_positions|n_ctx|max_seq_len)", 128),
    (r"max_(source|target)_positions|num_position_embeddings|model_max_length", 64),
    (r".*(intermediate_size|ffn_dim|ffn_hidden_size|intermediate_size_mlp)", 64),
    (r"d_ff|dff|dim_ff|d_inner|hidden_dim|feed_forward_size|mamba_d_ssm", 64),
    (r".*(lora_rank|lowrank)", 16),
    (r"mamba_d_state|(ssm_)?state_size", 8),
    (r"time_step_rank|mamba_dt_rank", 4),
    (r".*(hidden_size|d_model|embed_dim|embedding_size|emb_dim|embedding_dim)", 32),
    (r"dim|n_embd|d_embed|projection_dim|width|.*(projection|pooler_output)_size", 32),
    (r"(.*_)?hidden_size_.*", 32),
    (r"input_size|image_size", IMAGE),
    (r"patch_size", 16),
)
# Fields that are None by default, and which some architectures do not fill in.
UNSET = {"vocab_size": VOCABULARY, "head_dim": 8, "num_key_value_heads": 4}
UNSET |= {"num_experts_per_tok": 2, "n_routed_experts": 4, "n_shared_experts": 1}
DOUBLING = r"(hidden_sizes|embed_dims?|encoder_hidden_size|.*channels)"
FEWER = r"(.*depths?|num_block_repeats|layers|block_sizes|stage_num(b_of|_)\w+)"
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
# What the patterns cannot know: lengths that must agree, and sizes with other names.
EXCEPTIONS: dict[str, dict[str, Any]] = {
    "bros": {"hidden_size": 128, "dim_bbox_projection": 32},
    "canine": {"max_position_embeddings": 64, "num_hash_buckets": 64},
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROPE}},
    "cvt": {"depth": [1, 2, 3]},
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "clip_qkv": 8}},
    "donut-swin": {"window_size": 2, "embed_dim": 16},
    "dory": {"num_hidden_layers": 4, "n_input_layers": 1, "n_output_layers": 1}
    | {"n_recurrent_layers": 2},
    "efficientnet": {"width_coefficient": 0.25, "hidden_dim": 320},
    "focalnet": {"embed_dim": 16},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "hgnet_v2": {"stage_in_channels": [48, 16, 32, 64]},
    "layoutlmv3": {"coordinate_size": 4, "shape_size": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "lilt": {"hidden_size": 48},
    "mamba2": {"head_dim": 16, "n_groups": 2},
    "markuplm": {"max_depth": 4, "max_xpath_subs_unit_embeddings": 1002},
    "mobilenet_v1": {"depth_multiplier": 0.25},
    "mobilenet_v2": {"depth_multiplier": 0.25},
    "mobilevit": {"neck_hidden_sizes": [16] * 7},
    "mobilevitv2": {"width_multiplier": 0.25},
    "perceiver": {"num_latents": 8, "d_latents": 32, "image_size": 32}
    | {"num_self_attends_per_block": 2, "max_position_embeddings": LENGTH},
    "reformer": {"axial_pos_embds_dim": [16, 16], "axial_pos_shape": [3, 4]}
    | {"attn_layers": ["local", "lsh"], "num_buckets": 2}
    | {"local_attn_chunk_length": 4, "lsh_attn_chunk_length": 4},
    "siglip2": {"vision_config": {"num_patches": 16}},
    "swin": {"window_size": 2, "embed_dim": 16},
    "swinv2": {"window_size": 2, "embed_dim": 16},
    "textnet": {"stem_out_channels": 16, "conv_layer_strides": [[2]] * 4}
    | {"conv_layer_kernel_sizes": [[[3, 3]]] * 4},
    "xmod": {"default_language": "en_XX", "languages": ["en_XX"]},
    "zamba": {"num_hidden_layers": 4, "attention_hidden_size": 64}
    | {
        "attention_head_dim": 16,
        "layers_block_type": ["linear_attention", "hybrid"] * 2,
    },
}


def fields(config: PretrainedConfig) -> dict[str, Any]:
    """The fields that the constructor of this configuration takes, with its values."""
    kind = type(config)
    names = set(inspect.signature(kind.__init__).parameters)
    if dataclasses.is_dataclass(kind):
        names |= {field.name for field in dataclasses.fields(kind)}
    names |= {real for alias, real in kind.attribute_map.items() if alias in names}
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
    layers = values.get("num_hidden_layers") or values.get("num_layers")
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
        elif value is None and name in UNSET and not gentle:
            found[name] = UNSET[name]
        elif isinstance(value, bool):
            continue
        elif isinstance(value, int):
            most = _ceiling(name)
            if most is not None and not (gentle and "head_dim" in name):
                found[name] = min(value, most)
            if re.search(r"(key_value|kv)_heads$", name) and value == heads:
                found[name] = 4
        elif isinstance(value, (list, tuple)) and value and not gentle:
            cut = _cut(name, list(value), layers)
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


def _cut(name: str, value: list, layers: int | None) -> list | None:
    if len(value) == layers and isinstance(value[0], str):  # a kind for each layer
        kinds = list(dict.fromkeys(value))
        return [kinds[0], kinds[-1]]
    if all(isinstance(item, float) for item in value) and "drop" in name:
        return [0.0] * len(value)
    if not all(type(item) is int for item in value):
        return None
    most = _ceiling(name)
    if len(value) == layers and most is not None and len(set(value)) == 1:
        return [min(value[0], most)] * 2
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


def configuration(
    outer: type[PretrainedConfig],
    inner: type[PretrainedConfig],
    task: str,
    gentle: bool = False,
) -> PretrainedConfig:
    """A tiny configuration for a head; raises what transformers raises.

    Args:
        outer: the configuration class of the architecture.
        inner: that of the head: the same class, or the one of its text part.
        task: a key of `tiny.TASKS`.
        gentle: as in `smaller`.
    """
    default = outer()
    settings = smaller(default, gentle)
    for name, value in EXCEPTIONS.get(default.model_type, {}).items():
        nested = isinstance(value, dict) and isinstance(settings.get(name), dict)
        settings[name] = settings[name] | value if nested else value
    labels = 2 if task == "question-answering" else LABELS  # a start and an end
    settings |= {"num_labels": labels, "use_cache": False}
    if "classification" in task:
        settings["problem_type"] = "single_label_classification"
    if task == "causal-lm" and hasattr(default, "is_decoder"):
        settings["is_decoder"] = True
    if default.is_encoder_decoder and "decoder_start_token_id" not in settings:
        settings["decoder_start_token_id"] = PAD
    config = outer(**settings)
    if not isinstance(config, inner):
        config = config.get_text_config(decoder=task == "causal-lm")
    for part in (config, *(getattr(config, name) for name in config.sub_configs)):
        if part is not None:
            part.pad_token_id = getattr(part, "pad_token_id", None) or PAD
            part.num_labels = labels
    config._experts_implementation = "eager"  # the one that also takes float64
    return config


def image_size(config: PretrainedConfig) -> tuple[int, int, int]:
    """Channels, height and width of the images that this configuration describes."""
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", None) or IMAGE
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return getattr(vision, "num_channels", 3) or 3, height, width
