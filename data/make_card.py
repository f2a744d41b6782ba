"""Computes the figures of the data card and writes them into README.md.

    python data/make_card.py            write them
    python data/make_card.py --check    compare with the card, write nothing

Needs the course's environment (tokenizers, scikit-learn); run the other two first.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import make_tickets
from generated import write_or_check
from make_tokenizer import MAX_LENGTH
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from tokenizers import Tokenizer

FOLDER = Path(__file__).resolve().parent
BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"
Row = dict[str, object]


def read(split: str) -> list[Row]:
    text = (FOLDER / f"{split}.jsonl").read_text(encoding="ascii")
    return [json.loads(line) for line in text.splitlines()]


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def table(head: list[str], rows: list[list[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def split_figures(splits: dict[str, list[Row]], tokenizer: Tokenizer) -> str:
    """Rows, class balance, noise, and lengths in tokens with the special ones."""
    tickets = make_tickets.make_tickets()
    columns = []
    for split, rows in splits.items():
        count = len(rows)
        lengths = [len(tokenizer.encode(r["subject"], r["body"]).ids) for r in rows]
        mean = sum(lengths) / count
        spread = (sum((n - mean) ** 2 for n in lengths) / count) ** 0.5
        flipped = sum(ticket.flipped for ticket in tickets[split])
        columns.append(
            [
                f"{count:,}",
                percent(sum(row["label"] for row in rows), count),
                f"{flipped} ({percent(flipped, count)})",
                f"{min(lengths)} to {max(lengths)}",
                f"{mean:.1f} ± {spread:.1f}",
                percent(sum(n > MAX_LENGTH for n in lengths), count),
                f"{(FOLDER / f'{split}.jsonl').stat().st_size / 1000:.0f} kB",
            ]
        )
    names = ["rows", "urgent", "labels flipped", "tokens, shortest to longest"]
    names += ["tokens, mean ± standard deviation", f"longer than {MAX_LENGTH} tokens"]
    names += ["file"]
    rows = [list(row) for row in zip(names, *columns, strict=True)]
    return table(["", *splits], rows)


def baseline_figures(splits: dict[str, list[Row]]) -> str:
    """What needs no neural network, on the validation rows."""
    truth = [row["label"] for row in splits["validation"]]
    texts = {s: [f"{r['subject']} {r['body']}" for r in splits[s]] for s in splits}
    words = TfidfVectorizer()
    model = LogisticRegression(max_iter=1000).fit(
        words.fit_transform(texts["train"]), [row["label"] for row in splits["train"]]
    )
    answers = {
        "always “can wait”": [0] * len(truth),
        "always “urgent”": [1] * len(truth),
        "word counts (TF-IDF) and logistic regression": model.predict(
            words.transform(texts["validation"])
        ),
        "the rule itself, without the flips": [
            ticket.label != ticket.flipped
            for ticket in make_tickets.make_tickets()["validation"]
        ],
    }
    rows = [
        [name, f"{accuracy_score(truth, a):.2f}", f"{f1_score(truth, a):.2f}"]
        for name, a in answers.items()
    ]
    return table(["answer, on the validation rows", "accuracy", "F1"], rows)


def main() -> int:
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer" / "tokenizer.json"))
    splits = {split: read(split) for split in make_tickets.SIZES}
    figures = (
        f"\n{split_figures(splits, tokenizer)}\n"
        f"The tokenizer has {tokenizer.get_vocab_size()} entries.\n\n"
        f"{baseline_figures(splits)}\n"
    )
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    before, _, rest = card.partition(BEGIN)
    _, _, after = rest.partition(END)
    text = before + BEGIN + figures + END + after
    return write_or_check({FOLDER / "README.md": text.encode("utf-8")})


if __name__ == "__main__":
    sys.exit(main())
