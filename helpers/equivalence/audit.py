"""Does a Trainer's update equal the reference? Ask the Trainer that you have made.

print(equivalence.audit(trainer))
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from . import causes
from .comparison import Comparison, compare
from .drawn import CannotTell, Drawn, draw
from .losses import MeanLoss, targets_of
from .reference import Reference
from .remedies import REMEDIES
from .report import Audit, Window
from .twin import Run, run, twin_of, undisturbed

Batch = Mapping[str, Tensor]


def audit(trainer, *, windows: int = 2, apply_remedy: bool = False) -> Audit:
    """Hold the updates of a Trainer against the reference, window by window.

    A copy of the Trainer goes through its first full windows and a last window as short
    as its own, with its own data, collator, loss, overrides and callbacks. The weights
    stay where they are. Dropout, mixed precision and clipping are off. The Trainer, the
    random states and its next training are to the bit what they were.

    Args:
        trainer: a `transformers.Trainer`, made and not yet trained, or trained.
        windows: full windows to look at, 1 or more.
        apply_remedy: show as well what the updates are with the remedy applied.

    Returns:
        The `Audit`; `exact` is None where nothing can be told, and `verdict` says why.

    Raises:
        TypeError: not a Trainer.
        ValueError: windows is below 1.
    """
    for name in ("get_train_dataloader", "compute_loss", "training_step"):
        if not hasattr(trainer, name):
            raise TypeError(
                f"audit takes a transformers.Trainer and got a "
                f"{type(trainer).__name__}; for a loop of your own use watch()."
            )
    if not isinstance(windows, int) or windows < 1:
        raise ValueError(f"windows is a whole number of at least 1, not {windows!r}.")
    with undisturbed() as folder:
        try:
            found = _audit(trainer, windows, folder)
        except CannotTell as error:
            return Audit([], reason=str(error), notes=_notes(trainer))
        if found.exact is False:
            _find_remedy(found, trainer, windows, folder, apply_remedy)
    return found


def _audit(trainer, windows: int, folder: str, change: Callable | None = None) -> Audit:
    """One audit; the loss that is wanted is that of the Trainer without `change`."""
    twin = twin_of(trainer, folder)
    drawn = draw(twin, windows)
    wanted = MeanLoss(twin, drawn.batches)
    steps = twin.args.gradient_accumulation_steps
    expected = [
        drawn.batches[i : i + steps] for i in range(0, len(drawn.batches), steps)
    ]
    if change is not None:
        change(twin)
    try:
        done = run(twin, drawn, len(expected))
    except CannotTell:
        raise
    except Exception as error:
        raise CannotTell(
            f"The Trainer stopped with an error of its own, {type(error).__name__}: "
            f"{error}"
        ) from error
    results, cause = [], ""
    for number, batches in enumerate(expected, 1):
        window, why = _window(number, batches, done, wanted, twin)
        results.append(window)
        cause = cause or why
    leaks = len(expected[-1]) < steps and results[-1].exact is False
    if done.endless or (not drawn.sized and leaks):
        cause = _stream_cause(done, cause)
    extra = len(done.gradients) - len(expected)
    notes = _notes(trainer) + _drawn_notes(drawn, steps)
    if extra > 0:
        notes.append(f"{extra} more updates came than there are windows.")
    return Audit(results, cause=cause, notes=notes, steps=steps)


def _window(
    number: int, batches: Sequence[Batch], done: Run, wanted: MeanLoss, twin
) -> tuple[Window, str]:
    """One window's result, and the cause where it is not exact."""
    every = _of_all_processes(twin, batches)
    targets = [wanted.targets([batch]) for batch in every]
    window = Window(number, len(every), sum(targets))
    if not window.targets:
        window.note = "no target in it, so there is nothing to compare with"
        return window, ""
    if len(done.gradients) < number:
        window.note = "no update"
        return window, causes.STALE if done.gradients else ""
    gradient, loss = wanted(every)
    try:
        window.comparison = compare(
            done.gradients[number - 1], Reference(gradient, loss, window.targets)
        )
    except ValueError:
        window.note = "its reference gradient is zero"
        return window, ""
    window.loss = loss
    if len(done.logged) >= number:
        window.logged = done.logged[number - 1]
    if _exact(window.comparison):
        return window, ""
    each = [wanted([batch])[0] for batch, n in zip(every, targets, strict=True) if n]
    parts = causes.Parts(
        [causes.flat(g) for g in each],
        [n for n in targets if n],
        twin.args.gradient_accumulation_steps,
        twin.args.world_size,
        sum(targets_of(batch, shifted=False) for batch in every),
    )
    found = causes.flat(done.gradients[number - 1])
    return window, causes.cause_of(found, causes.flat(gradient), parts, twin.model)


def _exact(comparison: Comparison) -> bool:
    return comparison.relative_error < causes.TOLERANCE


def _of_all_processes(twin, batches: Sequence[Batch]) -> list[Batch]:
    if twin.args.world_size <= 1:
        return list(batches)
    from accelerate.utils import gather_object

    moved = [
        {n: v.cpu() if isinstance(v, Tensor) else v for n, v in batch.items()}
        for batch in batches
    ]
    return list(itertools.chain.from_iterable(gather_object([moved])))


def _stream_cause(done: Run, cause: str) -> str:
    if done.endless and not done.gradients:
        return (
            "The stream has no length and fewer micro-batches than a window needs: the "
            "Trainer reads it again and again and never makes an update."
        )
    if cause.startswith(causes.NOT_A_SUM):
        return cause
    return (
        "The stream has no length, so the Trainer does not see its end: the last, "
        "partial window goes on into the next pass."
    )


def _find_remedy(found: Audit, trainer, windows: int, folder: str, show: bool) -> None:
    """Try the remedies on copies; keep the first that makes every window exact."""
    if found.cause.startswith(causes.NOT_A_SUM) or not found.compared:
        return
    for line, change in REMEDIES.items():
        try:
            after = _audit(copy.copy(trainer), windows, folder, change)
        except CannotTell:
            continue
        if after.exact:
            found.remedy = line
            found.remedied = after if show else None
            return


def _notes(trainer) -> list[str]:
    notes = []
    args: Any = trainer.args
    if getattr(args, "auto_find_batch_size", False):
        notes.append(
            "auto_find_batch_size is on: after running out of memory it shrinks the "
            "micro-batch and not the accumulation steps, so the effective batch "
            "shrinks too. Set both yourself."
        )
    if args.gradient_accumulation_steps == 1:
        notes.append("Accumulation is off: gradient_accumulation_steps is 1.")
    return notes


def _drawn_notes(drawn: Drawn, steps: int) -> list[str]:
    notes = ["Dropout, mixed precision and clipping were off."]
    if not drawn.whole and drawn.sized:
        notes.append("The last window is as long as the last one of a whole pass.")
    elif not drawn.whole:
        notes.append(
            "The stream goes on; the audit cut it off after "
            f"{len(drawn.batches)} micro-batches, to see what its end would do."
        )
    return notes
