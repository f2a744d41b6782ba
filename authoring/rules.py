"""The rules that prose and figures keep; each breach is one sentence."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from authoring import prose
from authoring.notebook import MARKS

ALT_WORDS = 3
VAGUE = {"here", "link", "this", "this link", "click here", "this page", "more", "see"}

_COUNT = r"(?:two|three|four|five|six|seven|eight|nine|ten|twelve|hundred|thousand)"
_UNIT = (
    r"(?:%|per ?cent\b|[KMGT]i?B\b|kB\b|bytes?\b|[mµn]?s\b|seconds?\b|minutes?\b"
    r"|hours?\b|times\b|x\b|×|fold\b)"
)
# What looks like a number and measures nothing.
_NAMES = re.compile(
    r"(?:Exercise|Prediction|Question|Quiz|Section|Lesson|Python)s? \d+(?:\.\d+)*"
    r"|\b(?:19\d\d|20[0-2]\d)\b",
    re.I,
)
_NUMBERS = re.compile(
    rf"(?<![\w.])(?:\d[\d,.]*|{_COUNT})[\s\u00a0-]*{_UNIT}"
    r"|(?<![\w.])\d+\.\d+(?![\w.]\d)"
    r"|(?<![\w.])\d+(?:\.\d+)?e[-−+]?\d+"
    r"|×\s*\d|\b10\^"
    r"|(?<![\w.])\d{1,3}(?:[, \u00a0\u202f]\d{3})+\b"
    r"|(?<![\w.])\d{4,}\b",
    re.I,
)


def numbers(markdown: str) -> list[str]:
    """Sentences with a figure that no cell computes, and neither source nor mark."""
    found = []
    for block in prose.blocks(markdown):
        for sentence in [block.text] if block.row else prose.sentences(block):
            figure = _NUMBERS.search(_NAMES.sub("", prose.plain(sentence)))
            if figure and not MARKS.search(sentence) and "](http" not in sentence:
                found.append(
                    f"the number {figure[0].strip()!r} in {_short(sentence)}: compute "
                    "it in a cell, link its source, or mark it <!-- definition -->"
                )
    return found


def wording(markdown: str) -> list[str]:
    """Words and signs that the course does without."""
    found = []
    for block in prose.blocks(markdown):
        text = prose.plain(block.text)
        if re.search(r"\bsimply\b", text, re.I):
            found.append(f"'simply' in {_short(text)}")
        if "!" in text:
            found.append(f"an exclamation mark in {_short(text)}")
    return found


def headings(cells: Iterable[str]) -> list[str]:
    """One first-level heading, at the top, and no level skipped."""
    levels = [b.level for cell in cells for b in prose.blocks(cell) if b.level]
    found = []
    if levels[:1] != [1] or levels.count(1) != 1:
        found.append("exactly one first-level heading is wanted, above all others")
    for before, after in pairwise(levels):
        if after > before + 1:
            found.append(f"the heading level jumps from {before} to {after}")
    return found


def links(markdown: str, folders: Sequence[Path]) -> list[str]:
    """Vague or dead links. A relative one must lead somewhere from every folder."""
    found = []
    for link in prose.LINK.finditer(prose.without_code(markdown)):
        text, target = prose.plain(link["text"]), link["target"]
        if text.lower().strip(" .") in VAGUE or text.startswith("http"):
            found.append(f"the link text {text!r} does not say where it leads")
        if re.match(r"https?://|mailto:|#|\{\{", target):
            continue
        path = target.split("#")[0]
        if not all(_leads(folder, path) for folder in folders):
            found.append(f"the link to {target} is dead")
    return found


def images(markdown: str) -> list[str]:
    """Markdown and HTML images with no text in their place, or too short a one."""
    alts = [image["alt"] for image in prose.IMAGE.finditer(markdown)]
    for tag in re.findall(r"<img\b[^>]*>", markdown):
        match = re.search(r"""\balt=(["'])(.*?)\1""", tag)
        alts.append(match[2] if match else "")
    return [_alt_problem(alt) for alt in alts if len(alt.split()) < ALT_WORDS]


def details(markdown: str) -> list[str]:
    """Text after </summary> is drawn as Markdown only behind a blank line."""
    if re.search(r"</summary>(?!\n[ \t]*\n)", markdown):
        return ["a blank line must follow </summary>"]
    return []


def figures(source: str) -> list[str]:
    """Figures drawn in code: an alt= of three words or more, where it is literal."""
    found = []
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func)
        alts = [word.value for word in call.keywords if word.arg == "alt"]
        more = any(word.arg is None for word in call.keywords)
        if name.startswith("plots.") and not alts and not more:
            found.append(f"{name} needs alt=")
        for alt in alts:
            text = _literal(alt)
            if text is not None and len(text.split()) < ALT_WORDS:
                found.append(f"{name}: {_alt_problem(text)}")
    return found


def _literal(node: ast.expr) -> str | None:
    """The text of a string or f-string, an x for each value in it; else None."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(part) or "x" for part in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def _leads(folder: Path, target: str) -> bool:
    # The builder gives the solved notebooks, one folder deeper, one more step up.
    if folder.name == "solutions" and target.startswith("../"):
        target = f"../{target}"
    return (folder / target).resolve().exists()


def _alt_problem(alt: str) -> str:
    return f"the text alternative {alt!r} has fewer than {ALT_WORDS} words"


def _short(text: str) -> str:
    text = text if len(text) < 60 else text[:57] + "…"
    return repr(text)
