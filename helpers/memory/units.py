"""Sizes in bytes, and how they are written for a reader."""

from __future__ import annotations

MiB = 2**20
GiB = 2**30


def readable(size: float) -> str:
    """`size` bytes in MiB with two decimals; below 0.01 MiB in bytes."""
    if abs(size) < MiB / 100:
        return f"{size:,.0f} bytes"
    return f"{size / MiB:,.2f} MiB"
