"""What can be forecast by name: models, optimizers, and precisions.

    preset = presets.PRESETS["distilbert-base"]
    memory.forecast(preset.make_model, preset.make_batch(128), OPTIMIZERS["sgd"])

The models are configurations, the shapes of well-known ones, with no file downloaded.

The sizes are those of the models' own `config.json`; each preset names its page in
`source`, and the papers are:

- DistilBERT: Sanh et al. 2019, https://arxiv.org/abs/1910.01108
- BERT: Devlin et al. 2018, https://arxiv.org/abs/1810.04805
- GPT-2: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"
- Llama: Grattafiori et al. 2024, https://arxiv.org/abs/2407.21783, table 3 for the 8B;
  for the 1B the card of Llama 3.2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from helpers import runtime

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

IGNORED = -100
SEED = 0  # of the token ids, which no size depends on

# Each is called with the parameters. No size depends on the learning rate.
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
    "sgd-momentum": partial(torch.optim.SGD, momentum=0.9),
    "adafactor": torch.optim.Adafactor,
}
# The dtype of autocast: weights and optimizer state stay in float32.
PRECISIONS = {"float32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Preset:
    """The shape of a published model, with the head that it is trained with here.

    Attributes:
        name: as in `PRESETS`.
        source: page of the published model whose configuration this is.
        task: "sequence-classification" (2 classes) or "causal-lm".
        longest: most tokens of a row that the model has positions for.
    """

    name: str
    source: str
    task: str
    longest: int
    _kind: str
    _shape: dict[str, Any] = field(repr=False)

    def make_model(self) -> PreTrainedModel:
        """The model in float32, with weights drawn at random: nothing is loaded.

        Inside `memory.forecast` it takes no memory; called elsewhere it takes all.
        """
        import transformers

        with runtime.without_advice():
            config = transformers.AutoConfig.for_model(self._kind, **self._shape)
            classes = transformers.AutoModelForSequenceClassification
            if self.task == "causal-lm":
                classes = transformers.AutoModelForCausalLM
            model = classes.from_config(config)
        if self.task == "causal-lm":
            model.loss_type = "ForCausalLM"  # GPT-2's is guessed so, with a warning
        return model

    def make_batch(self, sequence_length: int) -> Callable[[int], dict[str, Tensor]]:
        """A function that gives micro-batches of so many rows of that many tokens.

        Each holds `input_ids` and `attention_mask`, (rows, sequence_length), and
        `labels`: (rows,) to classify, (rows, sequence_length) for a language model,
        with -100 on the padding. The last token of each row is padding: an eager model
        drops a mask of ones only, and would take less than a real batch.

        Raises:
            ValueError: fewer than 2 tokens, or more than the model has positions for.
        """
        length = sequence_length
        whole = isinstance(length, int) and not isinstance(length, bool)
        if not whole or not 2 <= length <= self.longest:
            raise ValueError(
                f"sequence_length is {length!r}; {self.name} takes a whole number of "
                f"tokens from 2 to {self.longest:,}."
            )

        def batch(rows: int) -> dict[str, Tensor]:
            drawn = torch.Generator().manual_seed(SEED)
            tokens = self._shape["vocab_size"]
            ids = torch.randint(tokens, (rows, length), generator=drawn)
            mask = torch.ones_like(ids)
            mask[:, -1] = 0
            if self.task == "causal-lm":
                labels = ids.masked_fill(mask == 0, IGNORED)
            else:
                labels = torch.arange(rows) % 2
            return {"input_ids": ids, "attention_mask": mask, "labels": labels}

        return batch


def _preset(name: str, source: str, kind: str, longest: str, **shape: Any) -> Preset:
    task = "sequence-classification" if "bert" in kind else "causal-lm"
    if task == "causal-lm":
        shape["use_cache"] = False  # keys and values are for writing, not for training
    page = f"https://huggingface.co/{source}"
    return Preset(name, page, task, shape[longest], kind, shape)


def _llama(name: str, source: str, **shape: Any) -> Preset:
    # Llama 3 stretches its rotary angles; no size depends on them, so they stay plain.
    return _preset(
        name, source, "llama", "max_position_embeddings", vocab_size=128_256,
        num_attention_heads=32, num_key_value_heads=8, hidden_act="silu",
        max_position_embeddings=131_072, bos_token_id=128_000, eos_token_id=128_001,
        **shape,
    )  # fmt: skip


_ALL = (
    _preset(
        "distilbert-base", "distilbert/distilbert-base-uncased", "distilbert",
        "max_position_embeddings", vocab_size=30_522, dim=768, n_layers=6, n_heads=12,
        hidden_dim=3072, max_position_embeddings=512, dropout=0.1,
        attention_dropout=0.1, seq_classif_dropout=0.2,
    ),
    _preset(
        "bert-base", "google-bert/bert-base-uncased", "bert",
        "max_position_embeddings", vocab_size=30_522, hidden_size=768,
        num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
        max_position_embeddings=512, type_vocab_size=2, hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    ),
    _preset(
        "gpt2", "openai-community/gpt2", "gpt2", "n_positions", vocab_size=50_257,
        n_embd=768, n_layer=12, n_head=12, n_positions=1024, embd_pdrop=0.1,
        attn_pdrop=0.1, resid_pdrop=0.1, bos_token_id=50_256, eos_token_id=50_256,
    ),
    _llama(
        "llama-1b", "meta-llama/Llama-3.2-1B", hidden_size=2048, num_hidden_layers=16,
        head_dim=64, intermediate_size=8192, tie_word_embeddings=True,
    ),
    _llama(
        "llama-8b", "meta-llama/Llama-3.1-8B", hidden_size=4096, num_hidden_layers=32,
        head_dim=128, intermediate_size=14_336, tie_word_embeddings=False,
    ),
)  # fmt: skip
PRESETS: dict[str, Preset] = {preset.name: preset for preset in _ALL}
