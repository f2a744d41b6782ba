"""A meter's figures as a small table, in text and in HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.memory.units import MiB

if TYPE_CHECKING:
    from helpers.memory.meter import Meter

Row = tuple[str, float, float]  # what, bytes, share of the peak


def rows(meter: Meter) -> list[Row]:
    """One row for each kind at the peak, then the peak; on CUDA what else it held."""
    peak = meter.peak
    split = list(meter.at_peak.items())
    rest = peak - sum(size for _, size in split)
    if rest > 0:  # CUDA: the allocator sees workspaces and rounds sizes up
        split.append(("workspaces and rounding", rest))
    table = [(kind, size, size / peak if peak else 0.0) for kind, size in split]
    table.append(("peak", peak, 1.0 if peak else 0.0))
    if meter.reserved is not None:
        table.append(("reserved", meter.reserved, meter.reserved / max(peak, 1)))
    return table


def text(meter: Meter) -> str:
    """The table as lines of equal width."""
    lines = [f"{'at the peak':<24}{'MiB':>10}{'share':>8}"]
    for name, size, share in rows(meter):
        lines.append(f"{name:<24}{size / MiB:>10,.2f}{share:>8.0%}")
    return "\n".join(lines)


def html(meter: Meter) -> str:
    """The table for a notebook, with headers that a screen reader can announce."""
    body = "".join(
        f'<tr><th scope="row" style="text-align: left">{name}</th>'
        f"<td>{size / MiB:,.2f}</td><td>{share:.0%}</td></tr>"
        for name, size, share in rows(meter)
    )
    return (
        "<table><caption>Memory at its peak</caption>"
        '<thead><tr><th scope="col">kind</th><th scope="col">MiB</th>'
        f'<th scope="col">share</th></tr></thead><tbody>{body}</tbody></table>'
    )
