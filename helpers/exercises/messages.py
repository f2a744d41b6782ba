"""What an exercise shows: one message, as HTML in a notebook and as text elsewhere."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html import escape
from typing import Any

CORRECT = "correct"
NOT_YET = "not yet"
OPEN = "not attempted"
FAULT = "fault of the course"
HELP = "help"

TITLES = {
    CORRECT: "Correct",
    NOT_YET: "Not yet",
    OPEN: "Not attempted",
    FAULT: "This check is at fault, not your answer",
    HELP: "Hint",
}
SIGNS = {CORRECT: "✔", NOT_YET: "✘", OPEN: "○", FAULT: "⚠", HELP: "?"}

# Mid tones, so that bar and sign stand out on a white page and on a dark one (at least
# 3:1 against both). The text itself takes the colour of the page.
COLOURS = {
    CORRECT: "#2f9e4f",
    NOT_YET: "#d0701a",
    OPEN: "#7d8590",
    FAULT: "#a865e0",
    HELP: "#4a8fdc",
}


@dataclass
class Message:
    """One result: its state, the lines to read, and what unfolds on demand.

    `details` maps a summary ("Hint 1 of 2") to the text under it. `error` is a full
    Python error, shown folded and in a fixed-width font.
    """

    heading: str
    state: str
    lines: list[str] = field(default_factory=list)
    details: dict[str, str] = field(default_factory=dict)
    error: str = ""

    def __str__(self) -> str:
        first = f"{SIGNS[self.state]} {self.heading}: {TITLES[self.state]}"
        folded = [f"{summary}: {text}" for summary, text in self.details.items()]
        return "\n".join([first, *(f"  {line}" for line in [*self.lines, *folded])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        colour = COLOURS[self.state]
        sign = (
            f"<span style='color:{colour};margin-right:.4em' aria-hidden='true'>"
            f"{SIGNS[self.state]}</span>"
        )
        title = f"<strong>{sign}{_text(self.heading)}: {TITLES[self.state]}</strong>"
        body = "".join(f"<div>{_text(line)}</div>" for line in self.lines)
        for summary, text in self.details.items():
            body += _folded(
                summary, f"<div style='margin-left:1em'>{_text(text)}</div>"
            )
        if self.error:
            pre = "margin:.3em 0 0 1em;max-height:20em;overflow:auto"
            body += _folded(
                "Full error", f"<pre style='{pre}'>{escape(self.error)}</pre>"
            )
        box = f"border-left:4px solid {colour};padding:.3em .8em;margin:.3em 0"
        return f"<div role='status' style='{box}'>{title}{body}</div>"


@dataclass
class Code:
    """A heading and Python source, coloured by the notebook where there is one."""

    heading: str
    source: str

    def __str__(self) -> str:
        return f"{self.heading}\n\n{self.source}"

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return f"{self.heading}\n\n```python\n{self.source}\n```"


def show(thing: object) -> None:
    """Display `thing` in a notebook, print it anywhere else; never an error."""
    if shell() is not None:
        from IPython.display import display

        display(thing)
        return
    try:
        print(thing)
    except UnicodeEncodeError:  # a Windows console that has no such signs
        print(str(thing).encode("ascii", "replace").decode())


def shell() -> Any:
    """The running IPython shell or None; IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def _text(text: str) -> str:
    """`text` as HTML: escaped, `code` set as code, line breaks kept."""
    parts = escape(text, quote=False).split("`")
    if len(parts) % 2 == 0:  # a lone backtick is only a character
        parts = ["`".join(parts)]
    parts[1::2] = [f"<code>{part}</code>" for part in parts[1::2]]
    return "".join(parts).replace("\n", "<br>")


def _folded(summary: str, inner: str) -> str:
    return (
        f"<details><summary style='cursor:pointer'>{_text(summary)}</summary>"
        f"{inner}</details>"
    )
