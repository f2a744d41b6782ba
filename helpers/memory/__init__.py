"""Measure what fills the memory, and set it a limit."""

from helpers.memory.ledger import KINDS
from helpers.memory.limits import limit
from helpers.memory.meter import Meter
from helpers.memory.units import GiB, MiB

__all__ = ["KINDS", "GiB", "Meter", "MiB", "limit"]
