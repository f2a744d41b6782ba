"""What the tests run on two processes: each function reports what it measured."""

from __future__ import annotations

import time

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, DistributedSampler

from helpers import equivalence, processes, training
from tests import toys

SHAPES = [  # rows, micro-batch, accumulation steps
    (32, 2, 4),  # full windows
    (33, 2, 4),  # ragged, and the second process has one micro-batch fewer
    (18, 2, 4),  # the second process has none left in the last window
    (5, 1, 4),
    (1, 1, 1),  # the second process has no row at all
]
MASKED = [
    [3, 1, 4, 0, 5, 2, 6],
    [3, 0, 0, 2],
    [0, 3, 0, 4],
    [5, 0, 0, 0, 1, 2],
    [0, 0, 6],
    [0, 4, 2, 0, 0],
]


def begin():
    processes.start()


def flat(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def run(model, batches, k, wrapped=None, **options):
    """Train with a schedule and return the history; `wrapped` is what to train with."""
    optimizer = SGD(model.parameters(), lr=0.5)
    plan = LambdaLR(optimizer, lambda update: 0.9**update)
    return training.train(
        wrapped or model,
        batches,
        optimizer=optimizer,
        scheduler=plan,
        accumulation_steps=k,
        progress=False,
        **options,
    )


def apart(one, other, start):
    """How far two models are apart, against the way that training went."""
    away, way = (flat(one) - flat(other)).norm(), (flat(other) - start).norm()
    return (away / way).item()


def histories_apart(one, other):
    fields = ("loss", "gradient_norm", "targets", "learning_rate")
    return max(
        abs(getattr(a, name) - getattr(b, name))
        for a, b in zip(one.updates, other.updates, strict=True)
        for name in fields
    )


def against_one(name, batches, k, **options):
    """The shared loop on two processes beside the same on one."""
    alone, mine = toys.model(), toys.model()
    start = flat(alone)
    wrapped = processes.wrap(mine)
    sent = processes.count_exchanges(wrapped)
    one = run(alone, batches, 2 * k, **options)
    two = run(mine, processes.share(batches), k, wrapped, **options)
    processes.report(
        name=name,
        apart=apart(mine, alone, start),
        histories=histories_apart(one, two),
        updates=len(two.updates),
        all_reduces=sent.calls,
        mine=len(processes.share(batches)),
    )


def even_and_uneven():
    for rows, size, k in SHAPES:
        batches = toys.cut(toys.rows(rows), size)
        against_one(f"{rows} rows", batches, k, epochs=3, max_norm=0.2)


def masked():
    for counts in MASKED:
        batches = toys.cut(toys.tokens(counts), 1)
        against_one(f"targets {counts}", batches, 4, epochs=2)


def evaluated():
    """Evaluation over all processes, one of them without a row."""
    rows = toys.cut(toys.rows(3, classes=2), 3)
    alone, mine = toys.model(classes=2), toys.model(classes=2)
    wrapped = processes.wrap(mine)
    train = toys.cut(toys.rows(12, classes=2), 2)
    one = run(alone, train, 4, validation=rows, epochs=2)
    two = run(
        mine,
        processes.share(train),
        2,
        wrapped,
        validation=processes.share(rows),
        epochs=2,
    )
    processes.report(one=one.evaluations, two=two.evaluations)


def without_a_target():
    """An error that all processes meet must stop all of them."""
    model = processes.wrap(toys.model())
    try:
        run(model.module, processes.share(toys.cut(toys.tokens([0, 0]), 1)), 1, model)
    except ValueError as error:
        processes.report(no_target=str(error))
    try:
        run(model.module, [], 1, model)
    except ValueError as error:
        processes.report(no_row=str(error))


def prepared_by_accelerate():
    for rows in (32, 33, 18):
        whole = toys.rows(rows)
        each = [{n: t[i] for n, t in whole.items()} for i in range(rows)]
        settings = DataLoaderConfiguration(even_batches=False)
        accelerator = Accelerator(cpu=True, dataloader_config=settings)
        alone, mine = toys.model(), toys.model()
        start = flat(alone)
        optimizer = SGD(mine.parameters(), lr=0.5)
        wrapped, optimizer, loader = accelerator.prepare(
            mine, optimizer, DataLoader(each, batch_size=2)
        )
        one = training.train(
            alone, DataLoader(each, batch_size=2), accumulation_steps=8,
            optimizer=SGD(alone.parameters(), lr=0.5), epochs=2, progress=False,
        )  # fmt: skip
        two = training.train(
            wrapped, loader, accumulation_steps=4, optimizer=optimizer, epochs=2,
            progress=False,
        )  # fmt: skip
        processes.report(
            name=f"accelerate, {rows} rows",
            apart=apart(mine, alone, start),
            histories=histories_apart(one, two),
            world=accelerator.num_processes,
        )


def plain(model, window):
    """Nothing is held back: k exchanges a window."""
    for batch in window:
        (model(**batch).loss / len(window)).backward()


def held_back(model, window):
    for i, batch in enumerate(window, 1):
        with processes.exchange(model, window[i:]):
            (model(**batch).loss / len(window)).backward()


def held_back_in_backward(model, window):
    for i, batch in enumerate(window, 1):
        loss = model(**batch).loss / len(window)
        with processes.exchange(model, window[i:]):
            loss.backward()


def held_back_in_forward(model, window):
    for i, batch in enumerate(window, 1):
        with processes.exchange(model, window[i:]):
            loss = model(**batch).loss / len(window)
        loss.backward()


def shared(model, window):
    training.accumulate(model, window)


def exchanges():
    """All-reduces a window of four micro-batches, and whether the gradient is right."""
    batches = toys.cut(toys.rows(16), 2)
    mine = list(processes.share(batches))
    for way in (plain, held_back, held_back_in_backward, held_back_in_forward, shared):
        # Buckets of at most 200 bytes: there are several.
        model = processes.wrap(toys.model(), bucket_cap_mb=200 / 2**20)
        sent = processes.count_exchanges(model)
        per_window = []
        for _ in range(3):
            before = sent.calls, sent.bytes
            model.zero_grad()
            way(model, mine)
            per_window.append((sent.calls - before[0], sent.bytes - before[1]))
        found = equivalence.compare(
            model.module, equivalence.reference(model.module, batches)
        )
        weights = sum(p.numel() for p in model.parameters())
        processes.report(
            way=way.__name__,
            per_window=per_window,
            error=found.relative_error,
            gradient_bytes=8 * weights,
        )


def accumulate_exchanges():
    """The same for Accelerate's own `accumulate`."""
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    model, optimizer = toys.model(), None
    optimizer = SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    sent = processes.count_exchanges(model)
    for batch in processes.share(toys.cut(toys.rows(16), 2)):
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            optimizer.zero_grad()
    processes.report(accumulate_calls=sent.calls)


def schedules():
    """Rates of two updates, for a schedule that is prepared and one that is not."""
    for name in ("prepared", "not prepared"):
        accelerator = Accelerator(cpu=True)
        model = toys.model()
        optimizer = SGD(model.parameters(), lr=1.0)
        plan = LambdaLR(optimizer, lambda step: max(0.0, 1 - step / 4))
        model, optimizer = accelerator.prepare(model, optimizer)
        plan = accelerator.prepare(plan) if name == "prepared" else plan
        rates = []
        for batch in processes.share(toys.cut(toys.rows(8), 2)):
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            plan.step()
            optimizer.zero_grad()
            rates.append(optimizer.param_groups[0]["lr"])
        processes.report(schedule=name, rates=rates)


def whose_rows():
    """Which of five rows each process is given, by four ways to cut them."""
    loader = DataLoader(range(5), batch_size=1)
    sampler = DistributedSampler(range(5), shuffle=False)
    ways = {
        "share": processes.share(loader),
        "sampler": DataLoader(range(5), batch_size=1, sampler=sampler),
    }
    for even in (True, False):
        settings = DataLoaderConfiguration(even_batches=even)
        accelerator = Accelerator(cpu=True, dataloader_config=settings)
        ways[f"even_batches={even}"] = accelerator.prepare(DataLoader(range(5)))
    for name, way in ways.items():
        processes.report(rows=name, given=[int(row) for row in way])


def joined():
    """Three and two micro-batches under Join: the last update is one process's."""
    model = processes.wrap(toys.model())
    batches = toys.cut(toys.rows(5), 1)
    optimizer = SGD(model.parameters(), lr=0.1)
    with (
        equivalence.watch(
            model.module, optimizer, [batches[:2], batches[2:4], batches[4:]]
        ) as seen,
        model.join(),
    ):
        for batch in processes.share(batches):
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    processes.report(join_ratios=seen.ratios)


def passes_silently():
    """Five updates each, by cycling over three and two micro-batches: nobody errs."""
    model = processes.wrap(toys.model())
    mine, passes = list(processes.share(toys.cut(toys.rows(5), 1))), []
    for update in range(6):
        model(**mine[update % len(mine)]).loss.backward()
        passes.append(update // len(mine))
    processes.report(passes=passes)


def uneven():
    """The process that is through goes on; the other one is left in its backward."""
    model = processes.wrap(toys.model())
    for number, batch in enumerate(processes.share(toys.cut(toys.rows(5), 1)), 1):
        model(**batch).loss.backward()
        processes.report(micro_batch=number)


def does_something_else():
    time.sleep(600)
