"""The forecast as a page of text for the shell: table, bars, plan, notes."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from helpers.memory.plans import window
from helpers.memory.units import GiB, MiB

if TYPE_CHECKING:
    from helpers.memory import Forecast, Plan

WIDE, BAR = 80, 34  # columns of the page, and of the longest bar
LETTERS = {
    "parameters": "P",
    "gradients": "G",
    "optimizer state": "O",
    "activations": "A",
    "temporary": "T",
}
OTHER = "X"  # of a kind that has no letter


def size(number: float) -> str:
    """Bytes as "1.17 GiB" or "950.0 MiB"."""
    if abs(number) >= GiB:
        return f"{number / GiB:,.2f} GiB"
    return f"{number / MiB:,.1f} MiB"


def micro_batches(
    found: Forecast, plan: Plan | None, options: Any
) -> list[dict[str, Any]]:
    """A row for each power of two up to the effective batch, and the planned ones."""
    from helpers.plots.forecast import micro_batch_sizes

    effective = options.effective_batch
    sizes = {*micro_batch_sizes(effective)}
    if plan:
        sizes |= {plan.micro_batch, plan.even[0]}
    rows = []
    for micro_batch in sorted(sizes):
        steps, last = window(micro_batch, effective)
        split = found.at_peak(micro_batch, steps, last)
        peak = sum(split.values())
        rows.append(
            {
                "micro_batch": micro_batch,
                "accumulation_steps": steps,
                "peak": peak,
                "fits": peak <= options.budget,
                "by_kind": split,
            }
        )
    return rows


def page(facts: dict[str, Any], plan: str) -> str:
    """Everything that the command found, as text."""
    extras = ", checkpointing" if facts["checkpointing"] else ""
    lines = [
        f"{facts['model']}: {facts['weights']:,} weights, {facts['optimizer']}, "
        f"{facts['precision']}{extras}, {facts['sequence_length']} tokens",
        f"effective batch {facts['effective_batch']}, budget {size(facts['budget'])}, "
        f"floor {size(facts['floor'])}",
        "",
        *_table(facts),
        "",
    ]
    if plan:
        planned = facts["plan"]["micro_batch"]
        rows = facts["micro_batches"]
        split = next(r["by_kind"] for r in rows if r["micro_batch"] == planned)
        lines += [f"Of micro-batch {planned}, at the peak:", *_split(split), ""]
        lines += [*_wrapped(f"Plan: {plan}"), ""]
    if facts["ways"]:
        lines += [*_ways(facts["ways"], facts["budget"]), ""]
    for note in facts["notes"]:
        lines += _wrapped(note, "- ")
    lines.append(f"- {facts['seconds']:.1f} seconds, on tensors without storage.")
    return "\n".join(lines)


def _table(facts: dict[str, Any]) -> list[str]:
    rows, budget = facts["micro_batches"], facts["budget"]
    longest = max(row["peak"] for row in rows)
    lines = [f"{'micro-batch':>11}{'steps':>7}{'peak':>13}  {'':<10}by kind"]
    for row in rows:
        verdict = "fits" if row["fits"] else "too large"
        bar = _bar(row["by_kind"], longest)
        if longest > budget:  # else the mark would lie beyond all bars
            place = round(budget / longest * BAR)
            bar = f"{bar:<{BAR}}"
            bar = f"{bar[:place]}|{bar[place:]}".rstrip()
        lines.append(
            f"{row['micro_batch']:>11}{row['accumulation_steps']:>7}"
            f"{size(row['peak']):>13}  {verdict:<10}{bar}"
        )
    named = ", ".join(f"{letter} {kind}" for kind, letter in LETTERS.items())
    mark = "; | budget" if longest > budget else ""
    return [*lines, *_wrapped(f"{named}{mark}", " " * 4)]


def _bar(split: dict[str, int], longest: int) -> str:
    """A letter for each part; rounded so that the whole has the right length."""
    text, reached = "", 0
    for kind, bytes_ in split.items():
        reached += bytes_
        letter = LETTERS.get(kind, OTHER)
        text += letter * (round(reached / longest * BAR) - len(text))
    return text


def _split(split: dict[str, int]) -> list[str]:
    peak = sum(split.values())
    return [
        f"  {kind:<18}{size(value):>13}{value / peak:>7.0%}"
        for kind, value in split.items()
    ]


def _ways(ways: dict[str, int | str], budget: int) -> list[str]:
    lines = [f"{'What would lower it':<24}{'one row takes':>15}"]
    for way, need in ways.items():
        if isinstance(need, str):
            lines += _wrapped(f"{way}: {need}", "  ")
            continue
        verdict = "fits" if need <= budget else f"{size(need - budget)} too large"
        lines.append(f"  {way:<22}{size(need):>15}  {verdict}")
    return lines


def _wrapped(text: str, first: str = "") -> list[str]:
    later = " " * len(first)
    return textwrap.wrap(text, WIDE, initial_indent=first, subsequent_indent=later)
