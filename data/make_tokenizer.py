"""Makes tokenizer/: a WordPiece tokenizer for the tickets, from their own words.

    python data/make_tokenizer.py            write the two files
    python data/make_tokenizer.py --check    compare with the files, write nothing

The trainer of the tokenizers library gives another vocabulary on each run, so the words
are counted here, and the files written here, with the standard library alone.
"""

from __future__ import annotations

import json
import re
import string
import sys
from collections import Counter
from pathlib import Path

from generated import write_or_check

FOLDER = Path(__file__).resolve().parent
SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
MAX_LENGTH = 64  # tokens; longer tickets are cut
MIN_COUNT = 3  # a rarer word is spelled out in letters


def count_words(texts: list[str]) -> Counter[str]:
    """Words and marks as BERT's pre-tokenizer cuts them, lower case, ASCII only."""
    return Counter(
        w for t in texts for w in re.findall(r"[a-z0-9]+|[^\sa-z0-9]", t.lower())
    )


def make_vocabulary(texts: list[str]) -> dict[str, int]:
    """Special tokens, characters, characters inside a word, then words by frequency."""
    counts = count_words(texts)
    marks = {word for word in counts if not word.isalnum()}
    characters = sorted({*string.ascii_lowercase, *string.digits, *marks})
    inside = [f"##{character}" for character in characters if character.isalnum()]
    frequent = [
        word
        for word, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        if count >= MIN_COUNT and len(word) > 1 and not word.isdigit()
    ]
    tokens = [*SPECIAL.values(), *characters, *inside, *frequent]
    return {token: number for number, token in enumerate(tokens)}


def make_tokenizer(vocabulary: dict[str, int]) -> dict[str, object]:
    """The content of tokenizer.json: [CLS] subject [SEP] body [SEP]."""

    def special(token: str, part: int = 0) -> dict[str, object]:
        return {"SpecialToken": {"id": token, "type_id": part}}

    def text(name: str, part: int = 0) -> dict[str, object]:
        return {"Sequence": {"id": name, "type_id": part}}

    single = [special("[CLS]"), text("A"), special("[SEP]")]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": vocabulary[token],
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token in SPECIAL.values()
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, text("B", 1), special("[SEP]", 1)],
            "special_tokens": {
                token: {"id": token, "ids": [vocabulary[token]], "tokens": [token]}
                for token in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
    }


def make_config() -> dict[str, object]:
    """The content of tokenizer_config.json, for transformers 4.57 and 5 alike."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": MAX_LENGTH,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": True,
        **SPECIAL,
    }


def to_json(content: dict[str, object]) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode("ascii")


def main() -> int:
    lines = (FOLDER / "train.jsonl").read_text(encoding="ascii").splitlines()
    rows = [json.loads(line) for line in lines]
    texts = [row[column] for row in rows for column in ("subject", "body")]
    vocabulary = make_vocabulary(texts)
    return write_or_check(
        {
            FOLDER / "tokenizer" / "tokenizer.json": to_json(
                make_tokenizer(vocabulary)
            ),
            FOLDER / "tokenizer" / "tokenizer_config.json": to_json(make_config()),
        }
    )


if __name__ == "__main__":
    sys.exit(main())
