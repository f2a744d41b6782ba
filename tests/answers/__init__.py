"""Right and wrong answers for every exercise: what its check is proved on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Proof:
    """The answers that the check of one exercise has to judge rightly.

    Attributes:
        right: one or more right answers, written another way than the official one.
        wrong: two or more pairs (answer, words that its message must hold).
        given: what the lesson hands to the check after the answer.
        namespace: the names that the official solution needs; {"torch": torch} if None.

    `given` and `namespace` may be functions without arguments: they are then called
    anew for every judgement.
    """

    right: Sequence[Any]
    wrong: Sequence[tuple[Any, str]]
    given: Sequence[Any] | Callable[[], Sequence[Any]] = ()
    namespace: dict[str, Any] | Callable[[], dict[str, Any]] | None = None
