"""Answers to lesson 3, right and wrong, and the words that each wrong one must get."""

from __future__ import annotations

import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from tests.answers import Proof


def one_by_one(accelerator, model, loader, optimizer, scheduler):
    model = accelerator.prepare(model)
    optimizer = accelerator.prepare(optimizer)
    return [
        model,
        accelerator.prepare(loader),
        optimizer,
        accelerator.prepare(scheduler),
    ]


def other_order(accelerator, model, loader, optimizer, scheduler):
    a, b, c, d = accelerator.prepare(optimizer, scheduler, model, loader)
    return c, d, a, b


def prepared_and_dropped(accelerator, *things):
    accelerator.prepare(*things)
    return things


def swapped(accelerator, model, loader, optimizer, scheduler):
    return accelerator.prepare(model, optimizer, loader, scheduler)


def no_scheduler(accelerator, model, loader, optimizer, scheduler):
    return *accelerator.prepare(model, loader, optimizer), scheduler


def no_loader(accelerator, model, loader, optimizer, scheduler):
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    return model, loader, optimizer, scheduler


def not_returned(accelerator, *things):
    things = accelerator.prepare(*things)


def three(accelerator, model, loader, optimizer, scheduler):
    return accelerator.prepare(model, loader, optimizer)


def backward_of(change):
    """Backward through the accelerator, of a changed loss."""

    def add(accelerator, model, batch):
        k = accelerator.gradient_accumulation_steps
        accelerator.backward(change(model(**batch).loss, k))

    return add


def divided_by_hand(accelerator, model, batch):
    (model(**batch).loss / accelerator.gradient_accumulation_steps).backward()


def undivided(accelerator, model, batch):
    model(**batch).loss.backward()


def cleared_before(accelerator, model, batch):
    model.zero_grad()
    accelerator.backward(model(**batch).loss)


def forward_only(accelerator, model, batch):
    return model(**batch).loss


def block(order):
    """A block that does these things in this order."""

    def own(accelerator, model, batch, optimizer, scheduler):
        k = accelerator.gradient_accumulation_steps
        does = {
            "back": lambda: accelerator.backward(model(**batch).loss),
            "twice divided": lambda: accelerator.backward(model(**batch).loss / k),
            "undivided": lambda: model(**batch).loss.backward(),
            "step": optimizer.step,
            "plain step": lambda: optimizer.optimizer.step(),
            "plan": scheduler.step,
            "plain plan": lambda: scheduler.scheduler.step(),
            "zero": optimizer.zero_grad,
            "model zero": model.zero_grad,
        }
        for name in order.split(", "):
            does[name]()

    return own


def guarded_block(accelerator, model, batch, optimizer, scheduler):
    accelerator.backward(model(**batch).loss)
    if accelerator.sync_gradients:
        optimizer.step()
        scheduler.step()
        model.zero_grad()


def torch_clip(accelerator, model, max_norm):
    if accelerator.sync_gradients:
        clip_grad_norm_(model.parameters(), max_norm)


def scale_down(accelerator, model, max_norm):
    if not accelerator.sync_gradients:
        return
    norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
    for p in model.parameters():
        p.grad *= min(1.0, (max_norm / norm).item())


def clip_each_time(accelerator, model, max_norm):
    accelerator.clip_grad_norm_(model.parameters(), max_norm)


def clip_too_early(accelerator, model, max_norm):
    if not accelerator.sync_gradients:
        accelerator.clip_grad_norm_(model.parameters(), max_norm)


def clip_values(accelerator, model, max_norm):
    if accelerator.sync_gradients:
        clip_grad_value_(model.parameters(), max_norm / 40)


def always_to_the_limit(accelerator, model, max_norm):
    if accelerator.sync_gradients:
        norm = clip_grad_norm_(model.parameters(), max_norm)
        for p in model.parameters():
            p.grad *= max(1.0, max_norm / norm)


def never(accelerator, *_):
    accelerator.sync_gradients  # noqa: B018


def plan_prepared(accelerator, scheduler):
    accelerator.prepare(scheduler).step()


def plan_by_step(accelerator, scheduler):
    if accelerator.step % accelerator.gradient_accumulation_steps == 0:
        scheduler.step()


def plan_each_time(accelerator, scheduler):
    scheduler.step()


def plan_off_the_end(accelerator, scheduler):
    if not accelerator.sync_gradients:
        scheduler.step()


def plan_full_windows(accelerator, scheduler):
    k = accelerator.gradient_accumulation_steps
    if accelerator.step and accelerator.step % k == 0:
        scheduler.step()


def plan_k_times(accelerator, scheduler):
    if accelerator.sync_gradients:
        for _ in range(accelerator.gradient_accumulation_steps):
            scheduler.step()


def window(share, count="targets"):
    """Backward of `share(loss, own targets, all targets, micro-batches)`."""

    def exact(accelerator, model, window):
        def number(batch):
            labels = batch["labels"]
            return len(labels) if count == "rows" else (labels != -100).sum().item()

        total = sum(number(batch) for batch in window)
        for batch in window:
            loss = model(**batch).loss
            accelerator.backward(share(loss, number(batch), total, len(window)))

    return exact


def own_loss(accelerator, model, window):
    targets = sum(int((batch["labels"] != -100).sum()) for batch in window)
    k = accelerator.gradient_accumulation_steps
    for batch in window:
        with accelerator.accumulate(model):
            logits = model(**batch).logits
            summed = torch.nn.functional.cross_entropy(
                logits, batch["labels"], reduction="sum"
            )
            accelerator.backward(summed / targets * k)


def scaled_afterwards(accelerator, model, window):
    targets = 0
    for batch in window:
        count = int((batch["labels"] != -100).sum())
        accelerator.backward(model(**batch).loss * count)
        targets += count
    for p in model.parameters():
        p.grad /= targets


def all_at_once(accelerator, model, window):
    counts = [(batch["labels"] != -100).sum() for batch in window]
    losses = [model(**b).loss * c for b, c in zip(window, counts, strict=True)]
    accelerator.backward(sum(losses) / sum(counts))


def window_cleared(accelerator, model, window):
    counts = [(batch["labels"] != -100).sum() for batch in window]
    for batch, count in zip(window, counts, strict=True):
        model.zero_grad()
        accelerator.backward(model(**batch).loss * count / sum(counts))


def no_backward(accelerator, model, window):
    return [model(**batch).loss for batch in window]


def both(accelerator, encoder, head, batch, loss_of):
    loss = loss_of(encoder, head, batch)
    with accelerator.accumulate(*[head, encoder]):
        accelerator.backward(loss)


def both_by_hand(accelerator, encoder, head, batch, loss_of):
    with accelerator.accumulate(encoder, head):
        loss = loss_of(encoder=encoder, head=head, batch=batch)
        (loss / accelerator.gradient_accumulation_steps).backward()


def encoder_alone(accelerator, encoder, head, batch, loss_of):
    with accelerator.accumulate(encoder):
        accelerator.backward(loss_of(encoder, head, batch))


def head_alone(accelerator, encoder, head, batch, loss_of):
    with accelerator.accumulate(head):
        accelerator.backward(loss_of(encoder, head, batch))


def nested(accelerator, encoder, head, batch, loss_of):
    with accelerator.accumulate(encoder), accelerator.accumulate(head):
        accelerator.backward(loss_of(encoder, head, batch))


def outside(accelerator, encoder, head, batch, loss_of):
    accelerator.backward(loss_of(encoder, head, batch))


def both_divided_twice(accelerator, encoder, head, batch, loss_of):
    with accelerator.accumulate(encoder, head):
        loss = loss_of(encoder, head, batch)
        accelerator.backward(loss / accelerator.gradient_accumulation_steps)


PROOFS = {
    "3.1": Proof(
        right=[one_by_one, other_order],
        wrong=[
            (prepared_and_dropped, "stay as they were"),
            (swapped, "The order has to be"),
            (no_scheduler, "The scheduler is not prepared"),
            (no_loader, "The loader is not prepared"),
            (not_returned, "`return`"),
            (three, "four things"),
        ],
    ),
    "3.4": Proof(
        right=[
            divided_by_hand,
            backward_of(lambda loss, k: 1.0 * loss),
        ],
        wrong=[
            (backward_of(lambda loss, k: loss / k), "divides again"),
            (undivided, "nothing divides"),
            (cleared_before, "Only the last micro-batch"),
            (forward_only, "did you call backward"),
            (backward_of(lambda loss, k: loss * k * k), "Held against"),
            (backward_of(lambda loss, k: loss.item()), "AttributeError"),
        ],
    ),
    "3.5": Proof(
        right=[block("back, step, zero, plan"), guarded_block],
        wrong=[
            (block("zero, back, step, plan"), "Only the last micro-batch"),
            (block("back, plan, step, zero"), "first rate is lost"),
            (block("back, step, plan"), "has to be gone"),
            (block("back, step, zero"), "once an update"),
            (block("back, step, plain plan, zero"), "the scheduler made 6 steps"),
            (block("back, plain step, plan, zero"), "you made 6 updates"),
            (block("twice divided, step, plan, zero"), "divided twice"),
            (block("undivided, step, plan, zero"), "Nothing divides"),
            (block("back, plan, zero"), "made no step"),
            (block("back, zero, step, plan"), "empty .grad"),
        ],
        namespace={"add_gradient": backward_of(lambda loss, k: loss)},
    ),
    "3.6": Proof(
        right=[torch_clip, scale_down],
        wrong=[
            (clip_each_time, "its parts are cut"),
            (clip_too_early, "still being filled"),
            (never, "not clipped when"),
            (always_to_the_limit, "shorter than max_norm"),
            (clip_values, "The direction is off"),
        ],
    ),
    "3.7": Proof(
        right=[plan_prepared, plan_by_step],
        wrong=[
            (plan_each_time, "once a micro-batch"),
            (never, "did not move"),
            (plan_off_the_end, "wrong way round"),
            (plan_full_windows, "the last window is short"),
            (plan_k_times, "it has to move once"),
        ],
    ),
    "3.9": Proof(
        right=[own_loss, scaled_afterwards],
        wrong=[
            (window(lambda loss, own, all_, n: loss / n), "micro-batches' means"),
            (window(lambda loss, own, all_, n: loss), "The means are added"),
            (window(lambda loss, own, all_, n: loss * own), "The sums are added"),
            (window(lambda loss, own, all_, n: loss * own / all_ / n), "as well as"),
            (
                window(lambda loss, own, all_, n: loss * own / all_ * n),
                "one factor too",
            ),
            (window(lambda loss, own, all_, n: loss * own / all_, "rows"), "rows"),
            (window(lambda loss, own, all_, n: loss / all_), "Held against"),
            (window_cleared, "Only the last micro-batch"),
            (all_at_once, "held in memory at once"),
            (no_backward, "did you call backward"),
        ],
    ),
    "3.10": Proof(
        right=[both, both_by_hand],
        wrong=[
            (encoder_alone, "The head was held back 0"),
            (head_alone, "The encoder was held back 0"),
            (nested, "enter it once"),
            (outside, "Nothing was held back"),
            (both_divided_twice, "divide nothing yourself"),
        ],
    ),
}
