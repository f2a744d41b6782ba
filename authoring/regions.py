"""Solution regions: what the learner sees in their place, and the solved text."""

from __future__ import annotations

import re

from authoring.project import AuthoringError

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
STUB = ("# Your code here", "raise NotImplementedError")
_OWN_STUB = re.compile(r"\s*# stub:(?: (?P<code>.*))?$")


def split(source: str) -> tuple[str, str]:
    """Make the learner's and the solved text of one cell.

    Returns:
        The text with each region replaced by its stub, and the text with the markers
        and stub lines taken out.

    Raises:
        AuthoringError: a region is not closed, not opened or nested; a stub line stands
            outside a region; a region at the left margin has no stub of its own.
    """
    learner: list[str] = []
    solved: list[str] = []
    stub: list[str] = []
    indent: str | None = None  # of the open region
    for line in source.splitlines():
        own = _OWN_STUB.match(line)
        if line.strip() == BEGIN and indent is None:
            indent, stub = line[: line.index("#")], []
        elif line.strip() == END and indent is not None:
            learner += [(indent + text).rstrip() for text in _shown(stub, indent)]
            indent = None
        elif line.strip() in (BEGIN, END):
            raise AuthoringError(f"unbalanced solution region at {line.strip()!r}")
        elif own and indent is None:
            raise AuthoringError(f"a stub outside a solution region: {line.strip()!r}")
        elif own:
            stub.append(own["code"] or "")
        else:
            solved.append(line)
            if indent is None:
                learner.append(line)
    if indent is not None:
        raise AuthoringError(f"unbalanced solution region: {END!r} is missing")
    return "\n".join(learner), "\n".join(solved)


def _shown(stub: list[str], indent: str) -> list[str] | tuple[str, ...]:
    """The stub's lines. The default one at the left margin would stop the notebook."""
    if stub or indent:
        return stub or STUB
    raise AuthoringError(
        "a solution region at the left margin needs a stub, for example "
        "'# stub: answer = ...'"
    )
