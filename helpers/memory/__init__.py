"""Measure what fills the memory, set it a limit, forecast it, and plan with it."""

from helpers.memory.fake import enable_checkpointing
from helpers.memory.forecasts import Forecast, forecast
from helpers.memory.ledger import KINDS
from helpers.memory.limits import limit
from helpers.memory.meter import Meter
from helpers.memory.plans import Plan, plan
from helpers.memory.units import GiB, MiB

__all__ = [
    "KINDS",
    "Forecast",
    "GiB",
    "Meter",
    "MiB",
    "Plan",
    "enable_checkpointing",
    "forecast",
    "limit",
    "plan",
]
