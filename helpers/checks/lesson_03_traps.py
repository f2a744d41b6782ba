"""Exercises 3.6, 3.7 and 3.10 of lesson 3: clipping, schedule, several models."""

from __future__ import annotations

import torch
from torch import nn

from .. import runtime
from ..equivalence import reference
from ..exercises import Exercise, Wrong, call
from .lesson_03_bench import accelerator, bench, norm, quietly

LESSON = "03_accelerator"


def _clip(answer) -> str:
    for seed, k, bites in ((41, 4, True), (42, 3, True), (43, 2, False)):
        with bench(seed, [6] * 2 * k, k) as b:
            limit = norm(reference(b.model, b.windows[0])) * (0.5 if bites else 1e3)
            model, loader, optimizer, _ = b.prepare()
            for batch in loader:
                with b.accelerator.accumulate(model):
                    b.accelerator.backward(model(**batch).loss)
                    call(answer, b.accelerator, model, limit)
                    optimizer.step()
                    optimizer.zero_grad()
            for update in b.updates:
                _judge_clipped(update, limit, bites)
    return "Clipped once, when the whole window is there: its direction is kept."


def _judge_clipped(update, limit: float, bites: bool) -> None:
    found = update.compared(limit)
    if found.relative_error < 1e-5:  # torch adds 1e-6 to the norm it clips by
        return
    if update.compared().relative_error < 1e-9:
        raise Wrong(
            "The gradient is not clipped when the optimizer steps: it is longer than "
            "max_norm.",
            hint=0,
        )
    if not bites:
        raise Wrong(
            "A gradient shorter than max_norm has to stay as it is, and yours was "
            f"changed: {found}.",
            hint=1,
        )
    length = norm_of(update.gradient)
    if length > limit * 1.001:
        raise Wrong(
            "You clip while the window is still being filled, and not at its end: the "
            "direction is off, and the gradient is longer than max_norm.",
            hint=0,
        )
    raise Wrong(
        "The direction is off: the sum is cut before the whole window is in .grad, or "
        f"its parts are cut one by one. ({found})",
        hint=1,
    )


def norm_of(gradient) -> float:
    return torch.cat([g.flatten() for g in gradient.values()]).norm().item()


clip = Exercise(
    "3.6",
    "clip",
    _clip,
    hints=[
        "Which attribute of the accelerator says that this micro-batch ends a window?",
        "if accelerator.sync_gradients: then accelerator.clip_grad_norm_("
        "model.parameters(), max_norm).",
    ],
    lesson=LESSON,
)


def _plan_next(answer) -> str:
    for seed, count, k in ((44, 8, 4), (45, 7, 3)):
        with bench(seed, [4] * count, k) as b:
            model, loader, optimizer, _ = b.prepare()
            plan, moved = b.plain_scheduler, []
            for batch in loader:
                with b.accelerator.accumulate(model):
                    b.accelerator.backward(model(**batch).loss)
                    optimizer.step()
                    before = plan.last_epoch
                    quietly(answer, b.accelerator, plan)
                    moved.append(plan.last_epoch - before)
                    optimizer.zero_grad()
        due = [int(i % k == k - 1 or i == count - 1) for i in range(count)]
        if moved != due:
            _name_the_plan(moved, due, k)
    return "One step for each update, the short last window included."


def _name_the_plan(moved: list[int], due: list[int], k: int) -> None:
    micro = f"With {len(due)} micro-batches and k = {k}"
    if moved == [1] * len(due):
        raise Wrong(
            f"{micro} the scheduler moved {len(due)} times, once a micro-batch; "
            f"{sum(due)} updates are made. It is not prepared, so it does not wait.",
            hint=0,
        )
    if not any(moved):
        raise Wrong("The scheduler did not move at all.", hint=1)
    if moved == [1 - d for d in due]:
        raise Wrong(
            "It moves everywhere but at the end of a window: the condition is the "
            "wrong way round.",
            hint=1,
        )
    if moved[:-1] == due[:-1]:
        raise Wrong(
            f"{micro} the last window is short, and its update was not followed by a "
            "step of the scheduler. Ask the accelerator; do not count yourself.",
            hint=0,
        )
    at = [i + 1 for i, m in enumerate(moved) if m]
    wanted = [i + 1 for i, d in enumerate(due) if d]
    raise Wrong(
        f"{micro} it has to move once after micro-batches {wanted}; yours moved "
        f"{sum(moved)} times, after {at}.",
        hint=0,
    )


plan_next = Exercise(
    "3.7",
    "plan_next",
    _plan_next,
    hints=[
        "The optimizer has stepped where this micro-batch ends a window. Who knows?",
        "if accelerator.sync_gradients: scheduler.step()",
    ],
    lesson=LESSON,
)


def _add_both(answer) -> str:
    for seed, k in ((48, 4), (49, 3)):
        device = runtime.device()
        generator = torch.Generator().manual_seed(seed)
        batches = torch.randn(2 * k, 5, 4, generator=generator).to(device)
        with accelerator(k) as own:
            encoder, head = own.prepare(*(m.to(device) for m in _two(seed)))
            ends = []
            for batch in batches:
                call(answer, own, encoder, head, batch, _loss_of)
                ends.append(own.sync_gradients)
            _judge_both(own, encoder, head, batches, ends, seed, k)
    return "Both are held back until the window ends, and exchanged once."


def _two(seed: int) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(seed)
    return nn.Linear(4, 3), nn.Linear(3, 2)


def _loss_of(encoder, head, batch):
    return head(torch.tanh(encoder(batch))).square().mean()


def _judge_both(own, encoder, head, batches, ends, seed, k) -> None:
    due = [i % k == k - 1 for i in range(2 * k)]
    if not own.held_back and all(ends):
        raise Wrong(
            "Nothing was held back: do the two lines stand inside "
            "`with accelerator.accumulate(...)`?",
            hint=0,
        )
    if ends != due:
        raise Wrong(
            f"With k = {k} the first window ended after micro-batch "
            f"{ends.index(True) + 1 if True in ends else 'none'}: `accumulate` counts "
            "each time it is entered, so enter it once a micro-batch.",
            hint=1,
        )
    both = {"encoder": encoder, "head": head}
    held = {name: own.held_back[id(model)] for name, model in both.items()}
    for name, count in held.items():
        if count != 2 * (k - 1):
            raise Wrong(
                f"The {name} was held back {count} times, and {2 * (k - 1)} are due: "
                f"{held}. Pass every model that is trained.",
                hint=0,
            )
    twins = [m.to(batches.device) for m in _two(seed)]
    (sum(_loss_of(*twins, batch) for batch in batches) / k).backward()
    mine, wanted = (
        [p.grad for model in pair for p in model.parameters()]
        for pair in ((encoder, head), twins)
    )
    for g, w in zip(mine, wanted, strict=True):
        if g is None or not torch.allclose(g, w, rtol=1e-4, atol=1e-7):
            raise Wrong(
                "The gradient is not that of the window: add the loss once, with "
                "accelerator.backward, and divide nothing yourself.",
                hint=1,
            )


add_both = Exercise(
    "3.10",
    "add_both",
    _add_both,
    hints=[
        "`accumulate` takes any number of models.",
        "with accelerator.accumulate(encoder, head): loss = loss_of(encoder, head, "
        "batch), then accelerator.backward(loss).",
    ],
    lesson=LESSON,
)
