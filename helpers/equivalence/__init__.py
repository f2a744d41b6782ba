"""Is an update the one that the whole effective batch would give? Compare gradients.

Gradients are compared, not weights after training: Adam divides by the gradient's own
length, so a gradient that is k times too large leaves hardly a trace in the weights.
"""

from .audit import audit
from .comparison import Comparison, compare
from .reference import Reference, gradient, join, reference, without_dropout
from .remedies import share_of_window, summed_cross_entropy
from .report import Audit
from .scorecard import Scorecard, scorecard
from .watch import Watch, watch

__all__ = [
    "Audit",
    "Comparison",
    "Reference",
    "Scorecard",
    "Watch",
    "audit",
    "compare",
    "gradient",
    "join",
    "reference",
    "scorecard",
    "share_of_window",
    "summed_cross_entropy",
    "watch",
    "without_dropout",
]
