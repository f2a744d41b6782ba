# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 6 · Several processes
#
# {{buttons}}
#
# **You will be able to**
#
# - start a script on several processes from a notebook, and know what it sees there
# - make several processes give the update of one, for uneven data too
# - exchange gradients once a window, and count that it is so
# - find the world factor of the Trainer
# - say which uneven data hang, which fail, and which go wrong in silence
#
# About 55 minutes. <!-- definition --> You need nothing from the other notebooks.

# %% tags=["setup"]

# %%
import contextlib
import os
import tempfile
import time

import torch
from torch import distributed
from torch.nn.utils import parameters_to_vector
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, DistributedSampler

from helpers import communication, communication_sliders, configs, data, equivalence
from helpers import exercises, launch, models, processes, runtime, texts, training
from helpers.checks import lesson_06 as ex
from helpers.checks.probe import Probe, micro_batches

# %% [markdown]
# ## Two real processes
#
# On several GPUs, each is driven by a **process** of its own, a Python that knows
# nothing of the others.
# Each has a copy of the model and its own rows.
# They meet in one thing: before an update, they take the mean of their gradients.
#
# That works on a CPU as well.
# So we start two processes on this machine, and what they do is real.

# %%
gpus = torch.cuda.device_count()
if gpus < 2:
    print(f"GPUs: {gpus}. Both processes compute on the CPU and exchange by gloo.")
    print("You will see: gradients, updates, exchanges, bytes, faults. All are real.")
    print("You will not see: the time that a second GPU saves.")
else:
    print(f"GPUs: {gpus}. Each process has one of its own, and they exchange by NCCL.")

# %% [markdown]
# A process is told three numbers by whoever starts it.
# Its **rank** is its own number, counted from zero.
# The **world size** says how many there are.
# The local rank is its number on its machine, and so its GPU.
#
# Here is what each of ours shall do.


# %%
def hello():
    """What every process does first."""
    device = processes.start()
    rank, world = distributed.get_rank(), distributed.get_world_size()
    processes.report(device=str(device), world=world, process_id=os.getpid())
    print(f"hello from process {rank} of {world}")


def deal():
    """Which rows a process gets for its first update."""
    rows = DataLoader(range(960), batch_size=8)
    window = next(training.windows(processes.share(rows), 3))
    processes.report(dealt=[batch.tolist() for batch in window])


# %%
first = launch.run(hello, deal, limit=240)

# %% [markdown]
# `launch.run` writes the functions to a file, with the imports that they need.
# Then it calls `python -m torch.distributed.run`, which is **torchrun**.
# This is the command, and this is the whole file:

# %%
print(first.command.replace(str(first.script.parent), "..."))

# %%
print(first.script.read_text())

# %% [markdown]
# You could give the same command in a terminal.
# What the processes have to say, they print as a line that `launch.run` reads back:

# %%
for report in first.reports:
    if "device" in report:
        print(report)
print("this notebook is process", os.getpid())

# %% [markdown]
# If a process dies, hangs or takes too long, `launch.run` ends all of them.
# So it does if you interrupt the cell, or if the notebook's kernel dies.
#
# Three other ways to start them have traps.
#
# - `accelerate launch --cpu --num_processes 2` started one process only when we tried
#   it. <!-- cited --> Print the world size, always.
# - `notebook_launcher` ignores the number of processes [on Colab and wherever there is
#   no second GPU](https://github.com/huggingface/accelerate/blob/main/src/accelerate/launchers.py).
# - It also has to come before all else: once a cell has made an Accelerator or a
#   `TrainingArguments`, it refuses, or starts processes that do not know each other.
#
# A script has none of these, so we use scripts, on Colab too.
#
# ## The effective batch
#
# Rows that go through the model together are a **micro-batch**.
# A **window** is the micro-batches of one process between two updates, k if it is full.
# All the rows of an update are the **effective batch**, those of every process.
#
# ### Prediction 6.1
#
# `deal` above takes micro-batches of 8 rows, three to a window.
# How many rows does one update of both processes see?

# %% tags=["exercise-6.1"]
### BEGIN SOLUTION
# stub: update_rows = ...  # your number
update_rows = 8 * 3 * 2
### END SOLUTION

# %%
dealt = [first.of(rank)["dealt"] for rank in (0, 1)]
update_rows = ex.update_rows(update_rows, sum(len(b) for own in dealt for b in own))

# %%
for rank, own in enumerate(dealt):
    spans = ", ".join(f"{batch[0]} to {batch[-1]}" for batch in own)
    print(f"process {rank}: rows {spans}")

# %% [markdown]
# Stuck? `ex.update_rows.hint()` in a new cell helps, more than once, and
# `ex.update_rows.solution()` shows one way. Every exercise has both.
#
# `processes.share` deals the micro-batches out like cards.
# Together the two windows hold the rows that one process would have with twice the
# accumulation steps. <!-- definition -->
# So if you add processes and want the same training, make k smaller.
#
# ## The same update as one process
#
# **DistributedDataParallel**, DDP for short, wraps the model.
# While a backward runs, it takes the **mean** of all processes' gradients.
# Each of them then makes the same step, and the copies stay alike.
#
# A label that counts in the loss is a **target**.
# The right gradient is that of the mean loss over all targets of the window, whichever
# process has them.
#
# ### Exercise 6.2: the weight of a micro-batch
#
# `counts` says how many targets each micro-batch of the window has, a list for each
# process: `counts[rank][number]`.
# Return what to call backward on, for one micro-batch.
# DDP takes the mean over the processes after you.


# %% tags=["exercise-6.2"]
def share(loss, rank, number, counts):
    """From the mean loss of micro-batch `number` of process `rank`, what it adds."""
    ### BEGIN SOLUTION
    everywhere = sum(sum(own) for own in counts)
    return loss * counts[rank][number] * len(counts) / everywhere
    ### END SOLUTION


# %%
share = ex.share(share)

# %% [markdown]
# Two processes now use it, on a ragged window of real texts.
# `gather` brings the counts together.
# The **reference** is one backward over the whole window, in float64 with dropout off.


# %%
def tickets(rows):
    """Micro-batches of eight e-mails."""
    return data.loader(data.load("tickets"), 8, rows=rows)


def new_model():
    return models.classifier().double().to(runtime.device())


# %%
def with_share():
    """A window of four micro-batches on two processes, weighted by `share`."""
    model, rank = new_model(), distributed.get_rank()
    wrapped = processes.wrap(model)
    mine = [b.to(runtime.device()) for b in processes.share(tickets(28))]
    own = [training.count_targets(batch) for batch in mine]
    counts = processes.gather(wrapped, [own])
    for number, batch in enumerate(mine):
        share(wrapped(**batch).loss, rank, number, counts).backward()
    found = equivalence.compare(model, equivalence.reference(model, tickets(28)))
    processes.report(counts=counts, error=found.relative_error)


# %% [markdown]
# `training.train` has the same weight inside.
# It asks all processes for their targets before the first backward of a window.
#
# We let it train a model on one process, and one on two with half the accumulation
# steps.
# With plain SGD equal weights at the end mean equal gradients.


# %%
def train(model, loader, accumulation_steps):
    optimizer = SGD(model.parameters(), lr=0.1)
    options = {"accumulation_steps": accumulation_steps, "progress": False}
    return training.train(model, loader, optimizer=optimizer, epochs=2, **options)


# %%
def same_training():
    """One process with k = 4 beside two with k = 2: how far apart are the weights?"""
    for rows in (64, 76, 65):
        alone, shared = new_model(), new_model()
        start = parameters_to_vector(alone.parameters()).detach()
        train(alone, tickets(rows), 4)
        mine = processes.share(tickets(rows))
        history = train(processes.wrap(shared), mine, 2)
        one, two = (parameters_to_vector(m.parameters()) for m in (alone, shared))
        apart = ((one - two).norm() / (one - start).norm()).item()
        processes.report(
            rows=rows, mine=len(mine), updates=len(history.updates), apart=apart
        )


# %%
def begin():
    processes.start()


same = launch.run(begin, with_share, same_training, limit=240)

# %%
for rank in (0, 1):
    print(f"process {rank}: targets {same.of(rank)['counts']}", end="  ")
    print(f"relative error {same.of(rank)['error']:.0e}")

# %%
print("rows   micro-batches of each   updates   apart")
apart = [
    (zero["rows"], zero["mine"], one["mine"], zero["updates"], zero["apart"])
    for zero, one in zip(*(same.having("apart", rank) for rank in (0, 1)), strict=True)
]
for rows, zeros, ones, updates, distance in apart:
    print(f"{rows:4} {zeros:14} and {ones} {updates:14} {distance:10.0e}")

# %% [markdown]
# The distance of the weights is divided by the way that training went.
# It is rounding, in all three cases:
#
# - the first data divide evenly
# - in the second the last window is short, and its last micro-batch ragged
# - in the third the second process has one micro-batch fewer, and none at all in the
#   last window
#
# A process without a micro-batch takes part in the exchange, and adds nothing.
#
# ## One exchange a window
#
# To take the mean of gradients, processes send them to each other.
# That exchange is called **all-reduce**: each process gives its numbers, and each gets
# the sum.
# DDP makes one in every backward, for it cannot know that you are accumulating.
#
# Of a window's k exchanges only the last is needed.
# Until then each process can keep its sum to itself.
# `no_sync` holds the exchange back:


# %%
def plain(model, window):
    """Nothing is held back."""
    for batch in window:
        (model(**batch).loss / len(window)).backward()


def around_backward(model, window):
    """Held back, it seems."""
    for batch in window[:-1]:
        loss = model(**batch).loss / len(window)
        with model.no_sync():
            loss.backward()
    (model(**window[-1]).loss / len(window)).backward()


# %% [markdown]
# ### Exercise 6.3: hold it back
#
# DDP decides in the **forward** pass whether the backward that follows will exchange.
# Write the loop so that a window has one exchange.
# All micro-batches have equally many targets here.


# %% tags=["exercise-6.3"]
def held_back(model, window):
    """Leave the window's mean gradient in `.grad`, exchanged once."""
    ### BEGIN SOLUTION
    for number, batch in enumerate(window, 1):
        last = number == len(window)
        with contextlib.nullcontext() if last else model.no_sync():
            (model(**batch).loss / len(window)).backward()
    ### END SOLUTION


# %%
held_back = ex.held_back(held_back)

# %% [markdown]
# Now we count.
# A **communication hook** is a function that DDP calls in place of its all-reduce.
# `processes.count_exchanges` sets one that notes the bytes, and then calls DDP's own.


# %%
def exchanges():
    """All-reduces and bytes of a window of four micro-batches, by each loop."""
    batches = [batch.to(runtime.device()) for batch in micro_batches([2] * 8, 6)]
    ways = {"plain": plain, "around backward": around_backward}
    ways |= {"held back": held_back, "shared loop": training.accumulate}
    for name, way in ways.items():
        model = Probe(1).to(runtime.device())
        wrapped = processes.wrap(model)
        sent = processes.count_exchanges(wrapped)
        way(wrapped, list(processes.share(batches)))
        found = equivalence.compare(model, equivalence.reference(model, batches))
        size = sum(p.nbytes for p in model.parameters())
        counts = {"calls": sent.calls, "bytes": sent.bytes, "gradient": size}
        processes.report(way=name, error=found.relative_error, **counts)


# %% [markdown]
# And the same for Accelerate, whose `accumulate` uses `no_sync` as well:


# %%
def new_accelerator(**options):
    from accelerate import Accelerator  # here, so that only the processes load it

    return Accelerator(cpu=runtime.device().type == "cpu", **options)


# %%
def accelerate_exchanges():
    accelerator = new_accelerator(gradient_accumulation_steps=4)
    model = Probe(1).to(accelerator.device)
    model, optimizer = accelerator.prepare(model, SGD(model.parameters(), lr=0.1))
    sent = processes.count_exchanges(model)
    for batch in processes.share(micro_batches([2] * 8, 6)):
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch.to(accelerator.device)).loss)
            optimizer.step()
            optimizer.zero_grad()
    processes.report(accumulate_calls=sent.calls, accumulate_bytes=sent.bytes)


# %% [markdown]
# ### Prediction 6.4
#
# The window has four micro-batches.
# How many all-reduces will `around_backward` make?

# %% tags=["exercise-6.4"]
### BEGIN SOLUTION
# stub: backward_exchanges = ...  # your number
backward_exchanges = 4
### END SOLUTION

# %%
counted = launch.run(begin, exchanges, accelerate_exchanges, limit=240)
ways = {report["way"]: report for report in counted.having("way")}
backward_exchanges = ex.backward_exchanges(
    backward_exchanges, ways["around backward"]["calls"]
)

# %%
for name, way in ways.items():
    print(f"{name:15} {way['calls']} exchanges of {way['gradient']} bytes", end=", ")
    print(f"{way['bytes']:4} in all, relative error {way['error']:.0e}")
print("accumulate     ", counted.of(0)["accumulate_calls"], "exchange")

# %% [markdown]
# All of them are right, so no test of the gradient finds the waste.
# Only a count does.
#
# A large model is sent in several **buckets**, one all-reduce each, so that sending can
# begin before the backward ends.
# Ours fits into one.
#
# ## The Trainer and the world factor
#
# For a classifier like ours, most versions of the Trainer forget to divide by the
# accumulation steps: lesson 4 finds out why.
# On several processes one more factor comes in.
# The Trainer multiplies by the world size, so that DDP's mean becomes a sum over
# processes.
# That sum should be divided by the targets of all, and with such a model nobody does
# it.


# %%
def trainer_of(model, corpus, accumulation_steps, folder, **options):
    from transformers import Trainer, TrainingArguments

    args = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=accumulation_steps,
        use_cpu=runtime.device().type == "cpu",
        ddp_backend=distributed.get_backend(),
        report_to=[],
        disable_tqdm=True,
        **options,
    )
    rows = corpus.tokenized().select(range(32))
    return Trainer(model, args, train_dataset=rows, data_collator=corpus.collator)


# %%
def audits():
    """A classifier's updates on two processes, with k = 1 and with k = 2."""
    corpus = data.load("tickets")
    for steps in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            trainer = trainer_of(models.classifier(), corpus, steps, folder)
            found = equivalence.audit(trainer, apply_remedy=True)
        after = found.remedied.ratios if found.remedied else found.ratios
        ratios = {"ratios": found.ratios, "remedied": after}
        said = {"verdict": found.verdict, "cause": found.cause, "remedy": found.remedy}
        processes.report(steps=steps, **ratios, **said)


# %% [markdown]
# For a language model, whose loss is right, `average_tokens_across_devices` decides how
# targets are counted: over all processes, or by each for itself.


# %%
def language_audits():
    corpus = texts.of(data.load("tickets"))
    for over_all in (True, False):
        options = {"average_tokens_across_devices": over_all}
        with tempfile.TemporaryDirectory() as folder:
            model = models.language_model()
            found = equivalence.audit(trainer_of(model, corpus, 2, folder, **options))
        errors = [window.relative_error for window in found.compared]
        processes.report(over_all=over_all, worst=max(errors))


# %% [markdown]
# Starting processes costs seconds.
# So what the next two sections ask about goes along in the same run, and you will see
# its results there.
#
# First a schedule, once prepared by Accelerate and once not.
# Its rate is 1 − step / 4: it is made for four updates.


# %%
def schedules():
    """The rates of the first two updates."""
    for name in ("prepared", "not prepared"):
        accelerator = new_accelerator()
        model = Probe(1).to(accelerator.device)
        optimizer = SGD(model.parameters(), lr=1.0)
        plan = LambdaLR(optimizer, lambda step: max(0.0, 1 - step / 4))
        model, optimizer = accelerator.prepare(model, optimizer)
        plan = accelerator.prepare(plan) if name == "prepared" else plan
        rates = []
        for batch in processes.share(micro_batches([2] * 4, 6)):
            accelerator.backward(model(**batch.to(accelerator.device)).loss)
            optimizer.step()
            plan.step()
            optimizer.zero_grad()
            rates.append(optimizer.param_groups[0]["lr"])
        processes.report(schedule=name, rates=rates)


# %% [markdown]
# Then five rows, which two processes cannot share evenly.
# Four ways deal them out:


# %%
def deal_five():
    """The rows that each process is given."""
    from accelerate.utils import DataLoaderConfiguration

    rows = range(5)
    ways = {"processes.share": processes.share(DataLoader(rows))}
    sampler = DistributedSampler(rows, shuffle=False)
    ways["DistributedSampler"] = DataLoader(rows, sampler=sampler)
    for even in (True, False):
        settings = DataLoaderConfiguration(even_batches=even)
        accelerator = new_accelerator(dataloader_config=settings)
        ways[f"even_batches={even}"] = accelerator.prepare(DataLoader(rows))
    for name, way in ways.items():
        processes.report(dealt_by=name, rows=[int(row) for row in way])


# %% [markdown]
# And three ways to train on them with plain DDP, one row to a micro-batch.
# The first goes through its rows once:


# %%
def once_through():
    """Process 0 has three micro-batches, process 1 has two."""
    model = processes.wrap(Probe(1).to(runtime.device()))
    for number, batch in enumerate(processes.share(micro_batches([1] * 5, 6)), 1):
        model(**batch.to(runtime.device())).loss.backward()
        processes.report(backward=number)


# %% [markdown]
# The second starts anew when it is through, until it has made six updates:


# %%
def again_and_again():
    """Which pass over its data each process is in, at each update."""
    model, passes = processes.wrap(Probe(1).to(runtime.device())), []
    mine = list(processes.share(micro_batches([1] * 5, 6)))
    for update in range(6):
        batch = mine[update % len(mine)].to(runtime.device())
        model(**batch).loss.backward()
        passes.append(1 + update // len(mine))
    processes.report(passes=passes)


# %% [markdown]
# The third uses PyTorch's own `join`.
# A process that is through answers for as long as the others go on.
# `equivalence.watch` compares each update with its reference.


# %%
def joined():
    """The ratio of each update: how long its gradient is along the reference."""
    model = processes.wrap(Probe(1).to(runtime.device()))
    optimizer = SGD(model.parameters(), lr=0.1)
    batches = [batch.to(runtime.device()) for batch in micro_batches([1] * 5, 6)]
    windows = [batches[:2], batches[2:4], batches[4:]]
    with equivalence.watch(model.module, optimizer, windows) as seen, model.join():
        for batch in processes.share(batches):
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    processes.report(join_ratios=seen.ratios)


# %% [markdown]
# ### Prediction 6.5
#
# Back to the Trainer.
# Two processes, and no accumulation at all: k = 1.
# How many times as long as it should be is the gradient?

# %% tags=["exercise-6.5"]
### BEGIN SOLUTION
# stub: world_ratio = ...  # your number
world_ratio = 2
### END SOLUTION

# %%
tried = [schedules, deal_five, again_and_again, joined, audits, language_audits]
measured = launch.run(begin, *tried, once_through, limit=280, silence=120, check=False)
found = {report["steps"]: report for report in measured.having("steps")}
world_ratio = ex.world_ratio(world_ratio, found[1]["ratios"][0])

# %%
for steps, audit in found.items():
    ratios = ", ".join(f"{ratio:.3f}" for ratio in audit["ratios"])
    print(f"k = {steps}: ratios {ratios}")
    print("   cause:", audit["cause"] or "none, your version divides")

# %% [markdown]
# If your ratios are 1, your version divides, and there is nothing to repair.
# Otherwise see how it hides: with one process and k = 1 nobody would find a fault.
# Add a second GPU, and the gradient of every update is too long.
#
# The audit tries remedies on a copy, and names the first that makes every window exact:

# %%
for steps, audit in found.items():
    ratios = ", ".join(f"{ratio:.3f}" for ratio in audit["remedied"])
    print(f"k = {steps}: ratios {ratios} with the remedy")
    print("  ", audit["remedy"] or "no remedy is needed")

# %% [markdown]
# And the language model, by where its targets are counted:

# %%
for report in measured.having("over_all"):
    counted_by = "all together" if report["over_all"] else "each for itself"
    print(f"{counted_by:16} relative error {report['worst']:.0e}")

# %% [markdown]
# Counted by each process for itself, the targets of the one with short texts weigh too
# much: the mean of means, from lesson 5.
# Leave the argument at True.
#
# ## The schedule
#
# A scheduler that Accelerate has prepared steps once **for each process**.
# The idea behind it: the plan was made for one process, which would make that many
# more updates.
#
# ### Exercise 6.6: two rates
#
# The plan is 1 − step / 4, and there are two processes.
# What is the rate after the first update, and what after the second?

# %% tags=["exercise-6.6"]
### BEGIN SOLUTION
# stub: prepared_rates = [..., ...]  # your two numbers
prepared_rates = [1 - 2 / 4, 1 - 4 / 4]
### END SOLUTION

# %%
rates = {report["schedule"]: report["rates"] for report in measured.having("schedule")}
prepared_rates = ex.prepared_rates(prepared_rates, rates["prepared"])

# %%
for name, seen in rates.items():
    print(f"{name:12} {seen}")

# %% [markdown]
# Prepared, the plan for four updates is at its end after two.
# So either you do not prepare the scheduler and count updates.
# Or you prepare it and make its plan longer: updates times the world size.
#
# The shared loop steps once an update, whatever the number of processes.
#
# ## Uneven data
#
# Five rows for two processes: somebody has one more.
# This is what the four ways gave.

# %%
given = [measured.having("dealt_by", rank) for rank in (0, 1)]
for zero, one in zip(*given, strict=True):
    print(f"{zero['dealt_by']:19} {zero['rows']!s:9} and {one['rows']}")

# %% [markdown]
# Two of them fill up with a row from the start, so that all have equally many.
# That row counts twice, in training and in a metric.
# The other two leave it uneven, and then the loop has to be able to deal with it.
#
# ### Exercise 6.7: what happens?
#
# Process 0 has three micro-batches, process 1 has two, and each is in plain DDP.
# Process 0 is in its third backward, when process 1 is through.
# What happens, if process 1 ...
#
# - `"ends"`
# - `"works on"`: on something else, such as writing a large file
# - `"starts anew"`: goes on with its first micro-batch
#
# Answer with `"hangs"`, `"fails"` or `"passes silently"` for each.

# %% tags=["exercise-6.7"]
### BEGIN SOLUTION
# stub: happens = {"ends": ..., "works on": ..., "starts anew": ...}
happens = {"ends": "fails", "works on": "hangs", "starts anew": "passes silently"}
### END SOLUTION

# %%
happens = ex.happens(happens)

# %% [markdown]
# **It ends.** `once_through` was the last function of the run above.
# Here is what became of it:

# %%
print("\n".join((measured.failure or "It ended well.").splitlines()[:3]))

# %% [markdown]
# On the CPU gloo sees the closed connection at once.
# NCCL, on GPUs, may wait until a time limit.
#
# **It works on.** Process 1 has other things to do, and we end both after a few seconds
# without a word.


# %%
def works_on():
    time.sleep(600)


hung = launch.run(begin, once_through, works_on, limit=240, silence=5, check=False)
print("\n".join((hung.failure or "It ended well.").splitlines()[:3]))

# %% [markdown]
# The process waits in its backward, and would do so without end.
# Nothing is said and nothing is wrong with it: it is the other one that never came.
# If a run of yours hangs, look for the process that has **less** to do.
#
# **It starts anew.** These are the passes over the data at each of six updates:

# %%
for rank in (0, 1):
    print(f"process {rank}: pass", measured.of(rank)["passes"])

# %% [markdown]
# Nobody fails and nobody waits, and the two are soon in different passes.
# Rows of process 1 are seen more often, and no log says so.
#
# And `join`?

# %%
for rank in (0, 1):
    ratios = ", ".join(f"{ratio:.2f}" for ratio in measured.of(rank)["join_ratios"])
    print(f"process {rank}: ratios {ratios}")

# %% [markdown]
# The last update is too short: one process had a gradient, and it was divided by the
# number of both.
#
# The shared loop counts targets over all processes, so it does neither.
# Above, its third data were uneven in this way:

# %%
rows, zeros, ones, updates, distance = apart[2]
print(f"{zeros} and {ones} micro-batches, apart {distance:.0e}")

# %% [markdown]
# ## What is it worth? A simulation
#
# Nothing from here on runs on several processes.
# It is arithmetic, on a model of the costs, and its constants are yours to change.
#
# In a **ring all-reduce** the p processes sit in a circle, each with a gradient of its
# own, cut into p parts.
# In p − 1 steps each passes one part on to its neighbour, who adds its own.
# Then each process holds one part that is complete.
# In another p − 1 steps the complete parts go round.
#
# ### Exercise 6.8: bytes on the wire
#
# How many bytes does one process send in all, for a gradient of `size` bytes?


# %% tags=["exercise-6.8"]
def sent_bytes(processes, size):
    """Bytes that one of `processes` sends in a ring all-reduce of `size` bytes."""
    ### BEGIN SOLUTION
    return 2 * (processes - 1) * size / processes
    ### END SOLUTION


# %%
sent_bytes = ex.sent_bytes(sent_bytes)

# %%
for number in (1, 2, 8, 64, 4096):
    print(f"{number:4} processes: {sent_bytes(number, 1):.3f} times the gradient")

# %% [markdown]
# More processes hardly send more each.
# But the ring has more steps, each with its **latency**, the time before a first byte
# arrives.
#
# First the simulation has to stand the comparison.
# We give it the small model from above, and hold it against what was counted.

# %%
size = ways["plain"]["gradient"]
small = {"bytes_per_weight": 8, "weights": size / 8, "accumulation_steps": 4}
small = communication.Setting(**small)
for name, each in (("plain", True), ("held back", False)):
    update = communication.update(2, small, every_micro_batch=each)
    simulated = update.exchanges, int(update.reduced_bytes)
    counts = ways[name]["calls"], ways[name]["bytes"]
    print(f"{name:9} exchanges and bytes: simulated {simulated}", end=", ")
    print(f"counted {counts}, equal: {simulated == counts}")

# %% [markdown]
# Now a large model.
# These are the constants, and `help(communication.Setting)` has a source for each.

# %%
setting = communication.Setting()
for name, value in vars(setting).items():
    print(f"{name:19} {value:g}")

# %%
communication_sliders.draw()

# %%
simulated = communication.simulate(setting)
print("GPUs   every micro-batch        once a window")
for place in (0, 3, 4, 6, 12):
    print(f"{communication.PROCESSES[place]:4}", end="")
    for updates in simulated.values():
        seconds, waiting = updates[place].seconds, 1 - updates[place].efficiency
        print(f"   {seconds:.2f} s, {waiting:4.0%} waiting", end="")
    print()

# %% [markdown]
# Inside one machine the links are fast, and it matters little.
# As soon as the ring crosses the network, an exchange in each micro-batch takes more
# time than the computing.
# After that, the number of machines changes little.
#
# So it is the links that decide.
# The last picture has an ordinary network, with 10 Gb/s for each GPU.
# <!-- definition -->
# `explore` has a slider for every constant.

# %%
communication_sliders.explore(communication.Setting(network_bandwidth=10e9 / 8))

# %% [markdown]
# If your notebook shows the sliders, try two of them.
#
# - More accumulation steps: what happens to the share of time spent waiting?
# - DDP hides an exchange behind its backward, if it can. `overlap` says how well, and
#   is zero at first. How far does it help where the network is slow?
#
# ## When one machine is not enough
#
# Here are three files for that.
# **None of them was run for this course**, which has one machine.
# Their keys and options were only held against what torchrun and Accelerate know.
#
# First several machines, for a script as it is.
# torchrun is called on each, and all processes find each other at one address.

# %%
print(configs.text("torchrun_nodes.sh"))

# %% [markdown]
# With DDP each GPU holds the whole model.
# **FSDP** cuts weights, gradients and optimizer state among the GPUs.
# This file is for a script with Accelerate, as in lesson 3.

# %%
print(configs.text("accelerate_fsdp.yaml"))

# %% [markdown]
# Mind its last lines: here `no_sync` costs memory.
# **DeepSpeed** does the like, and takes over the backward as well.

# %%
print(configs.text("accelerate_deepspeed.yaml"))

# %% [markdown]
# ## What you measured

# %%
k_one, k_two = (found[steps]["ratios"][0] for steps in (1, 2))
after = max(abs(r - 1) for audit in found.values() for r in audit["remedied"])
last = [updates[-1].seconds for updates in simulated.values()]
print(f"rows of one update:             {sum(len(b) for own in dealt for b in own)}")
print(f"two processes against one:      {max(row[-1] for row in apart):.0e} apart")
print(f"exchanges of a window of four:  {ways['plain']['calls']} plain,", end=" ")
print(f"{ways['held back']['calls']} held back")
print(f"Trainer on two processes:       ratio {k_one:.3f}, with k = 2 {k_two:.3f}")
print(f"with the remedy:                ratio 1 within {after:.0e}")
print(f"prepared schedule:              rates {rates['prepared']}")
print(f"join, last update:              ratio {measured.of(0)['join_ratios'][-1]:.2f}")
print(f"simulated, 4096 GPUs:           {last[0]:.2f} s or {last[1]:.2f} s an update")

# %% [markdown]
# - Effective batch: micro-batch × k × processes. <!-- definition -->
# - DDP takes the mean over processes. Divide by the targets of all, and multiply by the
#   number of processes.
# - `no_sync` has to be around the forward too. Count the exchanges; gradients do not
#   show it.
# - Where the Trainer does not divide, its fault grows with the world size. Audit on as
#   many processes as you train on.
# - A prepared schedule steps once for each process.
# - Uneven data hang, fail, or pass silently. The last is the worst.
#
# Your marks so far:

# %%
exercises.progress()

# %% [markdown]
# **Next:** [lesson 7](07_below_the_floor.ipynb) is about the memory that accumulation
# leaves.
#
# ### Sources
#
# - [PyTorch: DistributedDataParallel and
#   no_sync](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
# - [PyTorch: torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html)
# - [PyTorch: join for uneven
#   inputs](https://docs.pytorch.org/tutorials/advanced/generic_join.html)
# - [PyTorch: communication
#   hooks](https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html)
# - [Accelerate on accumulation and
#   no_sync](https://huggingface.co/docs/accelerate/concept_guides/gradient_synchronization)
# - [Accelerate: why a prepared scheduler steps once for each
#   process](https://github.com/huggingface/accelerate/pull/1187)
# - [The Trainer's factor, an open report of
#   2026](https://github.com/huggingface/transformers/issues/47688)
# - [The same arithmetic in another
#   library](https://github.com/NVIDIA-NeMo/Automodel/issues/3846)
# - [Patarasuk and Yuan: ring all-reduce sends as little as
#   possible](https://doi.org/10.1016/j.jpdc.2008.09.002)
# - [NCCL's own account of an all-reduce's
#   time](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md)
