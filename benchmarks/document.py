"""Keeps the results in docs/bench.json and writes them for a reader."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from authoring.project import ROOT
from benchmarks.report import markdown, shown

MARKS = re.compile(r"(?<=<!-- bench -->\n).*?(?=<!-- /bench -->)", re.S)
DEVICES = {"cpu": "CPU", "cuda": "GPU"}
Results = dict[str, Any]


def load(root: Path = ROOT) -> Results:
    """What earlier runs found, by kind of device; empty before the first."""
    path = root / "docs" / "bench.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def merged(results: Results, kind: str, machine: dict, parts: dict) -> Results:
    """The results with these parts of this kind of device in place of earlier ones.

    Each part keeps the machine and the date that it was measured on.
    """
    there = dict(results.get(kind, {}))
    there |= {name: {"machine": machine, **part} for name, part in parts.items()}
    return {**results, kind: there}


def write(results: Results, root: Path = ROOT) -> None:
    """Write the file, the tables in docs/bench.md, and the table in README.md."""
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    (root / "docs" / "bench.json").write_bytes(text.encode())
    (root / "docs" / "bench.md").write_bytes(tables(results).encode())
    readme = root / "README.md"
    new = MARKS.sub(lambda _: summary(results), readme.read_text("utf-8"))
    readme.write_bytes(new.encode())


def summary(results: Results) -> str:
    """One Markdown table: what was promised, and found on each kind of device."""
    found: dict[str, dict[str, dict]] = {}
    wanted: dict[str, str] = {}
    for kind, parts in results.items():
        for part in parts.values():
            for check in part["checks"]:
                found.setdefault(check["what"], {})[kind] = check
                if kind == "cpu":
                    wanted[check["what"]] = check["wanted"]
    rows = []
    for what, by_kind in found.items():
        cells = [_cell(by_kind.get(kind)) for kind in DEVICES]
        rows.append([what, *cells, wanted.get(what, "")])
    return "\n".join([_machines(results), "", markdown(_HEAD, rows)])


_HEAD = ("measured", *DEVICES.values(), "wanted")


def _cell(check: dict | None) -> str:
    if check is None:
        return ""
    text = shown(check["found"]) + check["unit"]
    return text if check["kept"] else f"✘ {text}"


def _machines(results: Results) -> str:
    lines = []
    for kind, name in DEVICES.items():
        said = {
            f"{p['machine']['device']}, {p['machine']['versions']}, "
            f"{p['machine']['date']}"
            for p in results.get(kind, {}).values()
        }
        lines.append(f"{name}: {'; '.join(sorted(said)) or 'not run yet'}.")
    return "\n".join(lines)


def tables(results: Results) -> str:
    """Every part of every kind of device, as a Markdown page."""
    lines = [
        "# Measured",
        "",
        "Written by `make bench`; the figures are in [bench.json](bench.json). Times "
        "are taken in turns, way by way and round by round; a ratio is the median of "
        "the ratios within each round, with its quartiles.",
    ]
    for kind, parts in results.items():
        for part in parts.values():
            machine = part["machine"]
            lines += ["", f"## {part['title']}, {DEVICES[kind]}", "", part["text"], ""]
            lines += [markdown(part["columns"], part["rows"])]
            lines += [f"- {_line(check)}" for check in part["checks"]]
            lines += ["", f"{machine['device']}, {machine['date']}."]
    return "\n".join(lines) + "\n"


def _line(check: dict) -> str:
    wanted = f" (wanted {check['wanted']})" if check["wanted"] else ""
    return f"{check['what']}: {_cell(check)}{wanted}"
