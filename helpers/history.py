"""What a training run did: one record an update, one an evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Update:
    """One optimizer step.

    Attributes:
        loss: mean over the targets of the window.
        learning_rate: the rate that this step used (of the first parameter group).
        gradient_norm: Euclidean length of the gradient before clipping.
        targets: labels of the window that counted in the loss.
        seconds: wall time of the window, evaluation excluded.
        peak_bytes: most bytes alive at once in the window; None where nothing measured.
    """

    loss: float
    learning_rate: float
    gradient_norm: float
    targets: int
    seconds: float
    peak_bytes: int | None = None


@dataclass
class History:
    """The updates and evaluations of a run, in order; plots itself.

    Attributes:
        updates: one `Update` each.
        evaluations: one dict each: epoch, update (how many had been done), loss, and
            accuracy and f1 for a model with two classes.
        interrupted: the run was stopped by hand before its end.
    """

    updates: list[Update] = field(default_factory=list)
    evaluations: list[dict[str, float]] = field(default_factory=list)
    interrupted: bool = False

    def plot(self, *, alt: str, caption: str) -> None:
        """Draw loss, learning rate and gradient norm over the updates."""
        from . import plots

        plots.history(self, alt=alt, caption=caption)

    def __repr__(self) -> str:
        if not self.updates:
            return "History: no update"
        first, last = self.updates[0], self.updates[-1]
        seconds = sum(u.seconds for u in self.updates)
        text = f"History: {len(self.updates)} updates in {seconds:.1f} s"
        text += f", loss {first.loss:.3f} to {last.loss:.3f}"
        text += " (interrupted)" if self.interrupted else ""
        for e in self.evaluations:
            scores = "  ".join(
                f"{name} {e[name]:.3f}"
                for name in ("loss", "accuracy", "f1")
                if name in e
            )
            text += f"\n  epoch {e['epoch']}: {scores}"
        return text
