"""What an audit found, as a table in a notebook and as text in a terminal."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field

from .causes import TOLERANCE
from .comparison import Comparison

LOSS_TOLERANCE = 1e-3, 1e-4  # relative and absolute: logs are rounded to 4 places


@dataclass
class Window:
    """One window of the audit.

    Attributes:
        number: counted from 1.
        micro_batches: how many it has, over all processes.
        targets: labels that count in its loss.
        comparison: its update against the reference; None where there is none.
        loss, logged: the true loss, and the one that the Trainer logged, or None.
        note: why there is no comparison.
    """

    number: int
    micro_batches: int
    targets: int
    comparison: Comparison | None = None
    loss: float = 0.0
    logged: float | None = None
    note: str = ""

    @property
    def exact(self) -> bool | None:
        """Whether the update is the reference; None where it cannot be told."""
        if self.comparison is None:
            return False if self.note == "no update" else None
        return self.comparison.relative_error < TOLERANCE

    @property
    def logged_ratio(self) -> float | None:
        """The logged loss over the true one, None where there is none."""
        return None if self.logged is None or not self.loss else self.logged / self.loss

    @property
    def logged_right(self) -> bool:
        """Whether the logged loss is the true one, as far as it was logged."""
        relative, absolute = LOSS_TOLERANCE
        if self.logged is None:
            return True
        return abs(self.logged - self.loss) <= relative * abs(self.loss) + absolute

    def cells(self) -> list[str]:
        """Its row of the table."""
        first = [str(self.number), str(self.micro_batches), str(self.targets)]
        if self.comparison is None:
            return [*first, "–", "–", "–", self.note]
        c = self.comparison
        logged = "–" if self.logged_ratio is None else f"{self.logged_ratio:.4f}"
        verdict = "✔ exact" if self.exact else f"✘ {c.verdict}"
        return [*first, f"{c.ratio:.4f}", f"{c.residual:.1e}", logged, verdict]


HEAD = ["window", "micro-batches", "targets", "ratio", "residual", "logged loss", ""]


@dataclass
class Audit:
    """The windows of a Trainer against the reference.

    Attributes:
        windows: one `Window` each, the short last one included.
        cause: what explains the fault; "" where there is none, or none is known.
        remedy: a line to paste, tried on a copy; "" where none makes it exact.
        remedied: the audit with the remedy applied, where that was asked for.
        notes: what was switched off, and what to mind.
        reason: why nothing could be told, else "".
        steps: accumulation steps of the Trainer.
    """

    windows: list[Window]
    cause: str = ""
    remedy: str = ""
    remedied: Audit | None = None
    notes: list[str] = field(default_factory=list)
    reason: str = ""
    steps: int = 1

    @property
    def compared(self) -> list[Comparison]:
        """The comparisons that could be made."""
        return [w.comparison for w in self.windows if w.comparison is not None]

    @property
    def ratios(self) -> list[float]:
        """The ratio of each window that could be compared."""
        return [c.ratio for c in self.compared]

    @property
    def exact(self) -> bool | None:
        """True, False, or None where it cannot be told."""
        states = [window.exact for window in self.windows]
        if False in states:
            return False
        return None if self.reason or not states or None in states else True

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.exact is None:
            why = self.reason or "a window has nothing to be compared with"
            return f"Cannot tell: {why[:1].lower() + why[1:]}".rstrip(".") + "."
        if not self.exact:
            return self._fault()
        if not all(window.logged_right for window in self.windows):
            return "Every update is the reference, but the logged loss is not right."
        return "Every update is the reference."

    def _fault(self) -> str:
        wrong = [w for w in self.windows if w.exact is False]
        missing = [w for w in wrong if w.comparison is None]
        if len(missing) == len(wrong):
            return f"{len(missing)} of {len(self.windows)} windows get no update."
        found = [w.comparison for w in wrong if w.comparison is not None]
        if not all(math.isfinite(c.relative_error) for c in found):
            return "An update is not a number."
        straight = [c for c in found if c.residual < TOLERANCE]
        ratios = " or ".join(sorted({f"{c.ratio:.4g}" for c in straight}))
        long = f"the right way and is {ratios} times as long as it should be"
        if len(straight) == len(self.windows):
            return f"Every update goes {long}."
        off = len(found) - len(straight)
        parts = [f"one goes {long}"] if straight else []
        if len(straight) > 1:
            parts = [f"{len(straight)} go the right way, {ratios} times as long"]
        if off:
            parts.append(
                f"{off} {'is' if off == 1 else 'are'} off in direction as well"
            )
        if missing:
            parts.append(f"{len(missing)} did not come")
        return f"Of {len(self.windows)} updates, {', and '.join(parts)}."

    def __str__(self) -> str:
        lines = [self.verdict]
        if self.windows:
            rows = [HEAD, *(window.cells() for window in self.windows)]
            widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
            lines += [
                "  ".join(
                    f"{text:>{width}}" if i < 6 else text
                    for i, (text, width) in enumerate(zip(row, widths, strict=True))
                ).rstrip()
                for row in rows
            ]
        lines += [f"{name}: {text}" for name, text in self._below()]
        if self.remedied is not None:
            lines += ["", "With the remedy:", str(self.remedied)]
        return "\n".join(lines)

    __repr__ = __str__

    def _below(self) -> list[tuple[str, str]]:
        named = [("cause", self.cause), ("remedy", self.remedy)]
        if self.exact is False and not self.cause:
            named[0] = ("cause", "not known to this audit")
        notes = [("note", note) for note in self.notes]
        return [(name, text) for name, text in named if text] + notes

    def _repr_html_(self) -> str:
        cell = "style='text-align:right;padding:.2em .7em'"
        head = "".join(f"<th scope='col' {cell}>{name}</th>" for name in HEAD)
        rows = "".join(
            "<tr>" + "".join(f"<td {cell}>{_text(t)}</td>" for t in w.cells()) + "</tr>"
            for w in self.windows
        )
        page = f"<div><strong>{_text(self.verdict)}</strong></div>"
        if self.windows:
            page += (
                f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
            )
        for name, text in self._below():
            shown = f"<code>{_text(text)}</code>" if name == "remedy" else _text(text)
            page += f"<div>{name}: {shown}</div>"
        if self.remedied is not None:
            page += f"<div>With the remedy:</div>{self.remedied._repr_html_()}"
        return page


def _text(text: str) -> str:
    return html.escape(text, quote=False)
