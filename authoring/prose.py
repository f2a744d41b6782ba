"""Takes Markdown apart: its headings, paragraphs, sentences and words."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.M | re.S)
_DISPLAY_MATH = re.compile(r"\$\$.*?\$\$", re.S)
_CODE_SPAN = re.compile(r"(`+).+?\1", re.S)
_MATH = re.compile(r"\$[^$\n]+\$")
_ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s+")
_TAG = re.compile(r"</?[a-zA-Z][^>]*>")
_COMMENT = re.compile(r"<!--.*?-->", re.S)
# A mark for the linter stays with the sentence that it follows.
_SENTENCE_END = re.compile(r"(?<=[.?!])(?<!e\.g\.)(?<!i\.e\.)[*_)\"”]*\s+(?!<!--)")

IMAGE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<target>[^)\s]*)[^)]*\)")
LINK = re.compile(
    r"(?<!!)\[(?P<text>(?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]"
    r"\((?P<target>[^)\s]+)[^)]*\)"
)


@dataclass(frozen=True)
class Block:
    """A heading (level 1 to 6), or with level 0 a paragraph, list item or table row."""

    text: str
    level: int = 0
    row: bool = False


def without_code(markdown: str) -> str:
    """The text without code blocks, code spans and formulas, a word for each span."""
    text = _DISPLAY_MATH.sub("", _FENCE.sub("", markdown))
    return _MATH.sub("formula", _CODE_SPAN.sub("code", text))


def blocks(markdown: str) -> list[Block]:
    """The blocks of a Markdown cell in order, code and formulas taken out."""
    found: list[Block] = []
    paragraph: list[str] = []

    def close() -> None:
        if paragraph:
            found.append(Block(" ".join(paragraph)))
            paragraph.clear()

    for raw in [*without_code(markdown).splitlines(), ""]:
        line = raw.strip().lstrip("> ")
        heading = re.match(r"(#{1,6}) +(.*)", line)
        item = _ITEM.match(line)
        if heading or item or not line or line.startswith(("|", "{{", "</")):
            close()
        if heading:
            found.append(Block(heading[2], len(heading[1])))
        elif line.startswith("|"):
            found.append(Block(line, row=True))
        elif line and not line.startswith("{{"):
            paragraph.append(line[item.end() :] if item else line)
            if line.endswith("</summary>"):
                close()
    return found


def sentences(block: Block) -> list[str]:
    """The sentences of a block as written, with links and marks."""
    parts = _SENTENCE_END.split(block.text)
    return [part for part in parts if re.search(r"\w", plain(part))]


def plain(text: str) -> str:
    """What a reader sees of `text`: no addresses, images, tags, comments, emphasis."""
    text = IMAGE.sub("", _COMMENT.sub("", text))
    text = _TAG.sub("", LINK.sub(lambda match: match["text"], text))
    return re.sub(r"[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}", "", text).strip()


def words(text: str) -> int:
    """The number of words a reader reads in `text`."""
    return sum(bool(re.search(r"\w", word)) for word in plain(text).split())
