"""Say in a few lines why a run on several processes failed, or where it waited."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from .launch_guard import MARK, SILENT, TIMED_OUT

SHOWN = 12  # lines of output in a message
# What the guard puts before a line of a process, and torch before one of a traceback.
RANKED = re.compile(r"^\[(stdout|stderr)(\d+)\]:(?:\[rank\d+\]: ?)?(.*)$")


def explain(
    script: Path, processes: int, seconds: float, status: int, lines: Sequence[str]
) -> str:
    """The message about a run that exited with `status` after printing `lines`."""
    said: dict[str, list[str]] = {}
    printed = []
    for ranked in filter(None, map(RANKED.match, lines)):
        kind, rank, text = ranked.groups()
        if kind == "stderr":
            said.setdefault(rank, []).append(text)
        elif not text.startswith(MARK):
            printed.append(f"[{rank}] {text}")
    stopped = {
        TIMED_OUT: f"did not end within {seconds:g} s and was ended",
        SILENT: f"fell silent and was ended after {seconds:.0f} s",
    }
    read = _waiting if status in stopped else _raised
    told = stopped.get(status, f"failed after {seconds:.1f} s")
    message = [f"{script.name} on {processes} processes {told}."]
    found = {rank: read(own, script) for rank, own in sorted(said.items())}
    message += [f"Process {rank}: {words}" for rank, words in found.items() if words]
    if len(message) == 1:  # Python said nothing: the last lines are all there is
        printed = list(lines)
    if printed:
        message += ["Its last lines:", *printed[-SHOWN:]]
    return "\n".join(message)


def _raised(said: Sequence[str], script: Path) -> str | None:
    """The last error in a process's words, and the line of the script it came from."""
    starts = [i for i, line in enumerate(said) if line.startswith("Traceback (most")]
    if not starts:
        return None
    place = ""
    after = said[starts[-1] + 1 :]
    for line, following in zip(after, [*after[1:], ""], strict=True):
        if number := _line_of(line, script):
            place = f"\n  {script.name}, line {number}: {following.strip()}"
        elif line and not line.startswith(" "):
            return line + place
    return None


def _waiting(said: Sequence[str], script: Path) -> str | None:
    """The line of the script that a process was in when it was ended."""
    for line in said:
        if number := _line_of(line, script):
            source = script.read_text(encoding="utf-8").splitlines()
            return f"waited in line {number}: {source[number - 1].strip()}"
    return None


def _line_of(line: str, script: Path) -> int | None:
    place = re.match(r'  File "(.*)", line (\d+)', line)
    here = place is not None and Path(place[1]).name == script.name
    return int(place[2]) if here else None
