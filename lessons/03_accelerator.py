# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 3 · Accelerator
#
# {{buttons}}
#
# **You will be able to**
#
# - turn a loop written by hand into one of Hugging Face Accelerate
# - say what `prepare`, `accumulate` and `backward` do, and show it with a counter
# - find the faults that people make with them, from the gradient alone
# - make the short last window exact, which Accelerate alone does not
#
# About 50 minutes. <!-- definition --> You need nothing from the other notebooks.

# %% tags=["setup"]

# %%
import copy
import difflib
import functools
import inspect
import warnings
from collections import Counter

import torch
from accelerate import Accelerator
from torch.nn.utils import parameters_to_vector
from transformers import get_linear_schedule_with_warmup

from helpers import data, equivalence, exercises, models, plots, runtime, training
from helpers.checks import lesson_03 as ex

# %% [markdown]
# ## The loop by hand
#
# **Micro-batches** are rows that go through the model together.
# A **window** is all the micro-batches between two updates.
# The **accumulation steps**, k for short, are the micro-batches in a full window.
#
# We take the e-mails and the small DistilBERT of the course.
# One epoch of plain training puts the model where its micro-batches disagree.

# %%
tickets = data.load("tickets")
device = runtime.device()
trained = models.classifier(seed=1).to(device)
optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-3)
for batch in data.loader(tickets, 16, shuffle=True):
    trained(**batch.to(device)).loss.backward()
    optimizer.step()
    optimizer.zero_grad()

# %% [markdown]
# From here on we work in float64, so that rounding cannot hide a mistake or look like
# one.


# %%
def fresh(updates=3):
    """A copy of the model with the same weights each time, optimizer and schedule."""
    model = copy.deepcopy(trained).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimizer, get_linear_schedule_with_warmup(optimizer, 0, updates)


# %% [markdown]
# This is gradient accumulation in plain PyTorch.


# %%
def hand_loop(model, loader, optimizer, scheduler, accumulation_steps):
    for i, batch in enumerate(loader):
        batch = batch.to(device)
        loss = model(**batch).loss / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()


# %% [markdown]
# We hold each of its updates against the **reference**: one backward pass over all rows
# of the window.
# `equivalence.watch` looks at `.grad` whenever the optimizer steps.
#
# - **ratio**: how long the gradient is, along the reference
# - **residual**: what still differs when the length is put right
# - **relative error**: the difference, divided by the length of the reference


# %%
def watched(loop, loader, accumulation_steps=4):
    """Run one epoch of a loop and compare each of its updates with the reference."""
    model, optimizer, scheduler = fresh()
    windows = training.windows(loader, accumulation_steps)
    with equivalence.watch(model, optimizer, windows) as updates:
        loop(model, loader, optimizer, scheduler, accumulation_steps)
    return updates


# %%
sixty_four = data.loader(tickets, 8, rows=64)
watched(hand_loop, sixty_four)

# %% [markdown]
# Two full windows, both exact. Can Accelerate keep that, with fewer lines of ours?
#
# ## The loop as it is often shown
#
# Slides and tutorials often show no more than the heart of the loop.
# All of it stands inside `accumulate`, and no line asks whether an update is due.


# %%
def shown_loop(accelerator, model, loader, optimizer, scheduler):
    for batch in loader:
        with accelerator.accumulate(model):
            batch = batch.to(device)
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()


# %% [markdown]
# The number of accumulation steps is given when the Accelerator is made.
# `cpu=` keeps it on the device of our model: on a Mac it would take Apple's GPU, which
# has no float64.

# %%
on_cpu = device.type == "cpu"


# %%
def new_accelerator(accumulation_steps):
    return Accelerator(cpu=on_cpu, gradient_accumulation_steps=accumulation_steps)


# %% [markdown]
# Eight micro-batches, two to a window: four updates are due.
# We run the loop with our own model, loader, optimizer and scheduler.

# %%
accelerator = new_accelerator(2)
model, optimizer, scheduler = fresh(4)
windows = training.windows(sixty_four, 2)
with equivalence.watch(model, optimizer, windows) as not_prepared:
    shown_loop(accelerator, model, sixty_four, optimizer, scheduler)
not_prepared

# %% [markdown]
# Not one update is right, and there are too many of them.
# An optimizer of PyTorch knows nothing of `accumulate`: it steps when it is told to.
# So every micro-batch made an update, with a loss that was divided all the same.
#
# ### Exercise 3.1: complete it
#
# What was left out is `accelerator.prepare`.
# It takes any number of things and gives back, in the same order, what the loop has to
# use in their place.


# %% tags=["exercise-3.1"]
def prepared(accelerator, model, loader, optimizer, scheduler):
    """Model, loader, optimizer, scheduler, as the loop above needs them."""
    ### BEGIN SOLUTION
    return accelerator.prepare(model, loader, optimizer, scheduler)
    ### END SOLUTION


# %%
prepared = ex.prepared(prepared)

# %% [markdown]
# The loop stays as it is. Only what goes in is another.

# %%
accelerator = new_accelerator(2)
model, optimizer, scheduler = fresh(4)
ready = prepared(accelerator, model, sixty_four, optimizer, scheduler)
windows = training.windows(sixty_four, 2)
with equivalence.watch(model, optimizer, windows) as completed:
    shown_loop(accelerator, *ready)
completed

# %% [markdown]
# Four updates, all exact.
#
# ## Line by line
#
# Here is the whole loop in one piece.
# A prepared loader puts each micro-batch on the right device, so that line goes too.


# %%
def accelerate_loop(model, loader, optimizer, scheduler, accumulation_steps):
    accelerator = Accelerator(
        cpu=on_cpu, gradient_accumulation_steps=accumulation_steps
    )
    model, loader, optimizer, scheduler = accelerator.prepare(
        model, loader, optimizer, scheduler
    )
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()


# %% [markdown]
# Lines with a minus leave the hand loop, lines with a plus come in.

# %%
before, after = (
    inspect.getsource(loop).splitlines()[1:] for loop in (hand_loop, accelerate_loop)
)
changes = list(difflib.unified_diff(before, after, n=99, lineterm=""))
print("\n".join(changes[3:]))

# %% [markdown]
# | by hand | who does it now |
# |---|---|
# | `batch.to(device)` | the prepared loader |
# | `loss / accumulation_steps` | `accelerator.backward` |
# | `(i + 1) % accumulation_steps == 0` | `accumulate` counts |
# | `if ...:` | each line of the update asks for itself |
#
# Is the gradient still the same?

# %%
watched(accelerate_loop, sixty_four)

# %% [markdown]
# It is. The three lines of the update did not change at all.
# They stood behind an `if`, and now decide for themselves whether to act.
#
# ## What each part does
#
# ### `prepare`
#
# It gives back wrappers.

# %%
accelerator = new_accelerator(4)
plain = fresh()
wrapped = accelerator.prepare(*plain)
for before, after in zip(plain, wrapped, strict=True):
    same = "the same object" if after is before else "a wrapper"
    print(f"{type(before).__name__:38} {type(after).__name__:38} {same}")

# %% [markdown]
# On one process without mixed precision the model stays as it is.
# On several it comes back as a `DistributedDataParallel`, so always use what you get
# back.
#
# ### `accumulate`
#
# It counts micro-batches, and says in `accelerator.sync_gradients` whether this one
# ends a window.
#
# ### Prediction 3.2
#
# Eighty rows are ten micro-batches of eight.
# With k = 4, how many updates will there be?

# %% tags=["exercise-3.2"]
### BEGIN SOLUTION
# stub: updates_made = ...  # your number in place of the dots
updates_made = 3
### END SOLUTION

# %%
eighty = data.loader(tickets, 8, rows=80)
accelerator, model, signs = new_accelerator(4), fresh()[0], []
for _batch in accelerator.prepare(eighty):
    with accelerator.accumulate(model):
        signs.append(accelerator.sync_gradients)
print(signs)
updates_made = ex.updates_made(updates_made, sum(signs))

# %% [markdown]
# The tenth micro-batch ends a window too.
# A prepared loader reads one micro-batch ahead, so it knows when it hands out its last.
#
# ### A prepared optimizer and scheduler
#
# Now we count twice: how often the loop calls a method, and how often the object inside
# the wrapper is reached.


# %%
def count_calls(thing, name, calls):
    """From now on, count the calls of a method."""
    method = getattr(thing, name)

    @functools.wraps(method)
    def counting(*args, **options):
        calls[name] += 1
        return method(*args, **options)

    setattr(thing, name, counting)


# %%
model, optimizer, scheduler = fresh()
called, reached = Counter(), Counter()
accelerator = new_accelerator(4)
ready = accelerator.prepare(model, eighty, optimizer, scheduler)
for thing, calls in [(optimizer, reached), (ready[2], called)]:
    count_calls(thing, "step", calls)
    count_calls(thing, "zero_grad", calls)
shown_loop(accelerator, *ready)
planned = scheduler.last_epoch

# %%
for name in called:
    print(f"optimizer.{name:10} called {called[name]:2}   done {reached[name]}")
print(f"scheduler.step       called {called['step']:2}   done {planned}")

# %% [markdown]
# Off the end of a window the three calls do nothing.
# Some advice on the web wants them inside `if accelerator.sync_gradients`.
# With prepared objects that is not needed, and does no harm.
#
# ### `backward`
#
# It divides the loss by k, and then calls `loss.backward()`.
# On one micro-batch the division shows as the ratio:

# %%
batch = next(iter(sixty_four)).to(device)
model = fresh()[0]
reference = equivalence.reference(model, batch)
new_accelerator(4).backward(model(**batch).loss)
divided = equivalence.compare(model, reference)
divided

# %% [markdown]
# With mixed precision in float16 it also scales the loss, so that small gradients do
# not vanish. That is why `loss.backward()` is not the same.
#
# ### One state for all
#
# In a notebook you soon have several Accelerators.
#
# ### Question 3.3
#
# We make a first Accelerator with k = 4, and then a second one with k = 2.
# What will `first.gradient_accumulation_steps` be?
#
# - **a** 4
# - **b** 2
# - **c** an error: a process may have one Accelerator only

# %% tags=["exercise-3.3"]
### BEGIN SOLUTION
# stub: first_ones_k = ...  # "a", "b" or "c"
first_ones_k = "b"
### END SOLUTION

# %%
first = new_accelerator(4)
second = new_accelerator(2)
print("second:", second.gradient_accumulation_steps)
print("first: ", first.gradient_accumulation_steps)
first_ones_k = ex.first_ones_k(first_ones_k)

# %% [markdown]
# All Accelerators of a process share k and `sync_gradients`.
# So we make a new one for every loop, with the k that this loop needs.
# The last one made decides.
#
# ## Traps
#
# Each trap changes what stands inside `accumulate`, so we put that into a function of
# its own, the **block**.


# %%
def loop_of(block):
    """The loop from above with another block in it."""

    def loop(model, loader, optimizer, scheduler, accumulation_steps):
        accelerator = new_accelerator(accumulation_steps)
        ready = prepared(accelerator, model, loader, optimizer, scheduler)
        model, loader, optimizer, scheduler = ready
        for batch in loader:
            with accelerator.accumulate(model):
                block(accelerator, model, batch, optimizer, scheduler)

    return loop


# %% [markdown]
# ### Find the fault
#
# This block was made from the hand loop, line by line.


# %%
def first_try(accelerator, model, batch, optimizer, scheduler):
    loss = model(**batch).loss / accelerator.gradient_accumulation_steps
    accelerator.backward(loss)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()


# %%
twice = watched(loop_of(first_try), sixty_four)
twice

# %% [markdown]
# The direction is right, and the length is not.
# Training seems to work, only slower. With Adam you would hardly see it: it divides by
# the length of the gradient itself.
#
# ### Exercise 3.4: add one micro-batch
#
# Write the first lines of the block without the fault: forward and backward.
# All micro-batches have the same number of rows for now.


# %% tags=["exercise-3.4"]
def add_gradient(accelerator, model, batch):
    """Add the share of one micro-batch to `.grad`."""
    ### BEGIN SOLUTION
    loss = model(**batch).loss
    accelerator.backward(loss)
    ### END SOLUTION


# %%
add_gradient = ex.add_gradient(add_gradient)

# %% [markdown]
# ### Where `zero_grad` goes
#
# Many PyTorch loops begin with `optimizer.zero_grad()`.
# Moved into the block, it comes before backward:


# %%
def zero_first(accelerator, model, batch, optimizer, scheduler):
    optimizer.zero_grad()
    add_gradient(accelerator, model, batch)
    optimizer.step()
    scheduler.step()


# %%
cleared = watched(loop_of(zero_first), sixty_four)
cleared

# %% [markdown]
# A prepared `zero_grad` works at the end of a window only.
# That is the moment when the gradient of all the others lies in `.grad`.
# So the last micro-batch is all that is left. Is it, to the bit?


# %%
def flat_gradient(model):
    return parameters_to_vector([p.grad for p in model.parameters()])


# %%
thirty_two = data.loader(tickets, 8, rows=32)
model, optimizer, scheduler = fresh()
used = []
optimizer.register_step_pre_hook(lambda *_: used.append(flat_gradient(model)))
loop_of(zero_first)(model, thirty_two, optimizer, scheduler, 4)

# %% tags=["nbval-check-output"]
other = fresh()[0]
last = list(thirty_two)[-1].to(device)
(other(**last).loss / 4).backward()
print("the last one alone, to the bit:", torch.equal(used[0], flat_gradient(other)))

# %% [markdown]
# ### Exercise 3.5: the block
#
# Write the whole block: forward and backward, the step, the schedule, an empty `.grad`
# for the next window.
# Optimizer and scheduler are prepared. You may use `add_gradient`.


# %% tags=["exercise-3.5"]
def own_block(accelerator, model, batch, optimizer, scheduler):
    """What stands inside `with accelerator.accumulate(model):`"""
    ### BEGIN SOLUTION
    add_gradient(accelerator, model, batch)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    ### END SOLUTION


# %%
own_block = ex.own_block(own_block)

# %%
watched(loop_of(own_block), sixty_four)

# %% [markdown]
# ### Clip at the right moment
#
# `step`, `scheduler.step` and `zero_grad` wait for the end of the window.
# `accelerator.clip_grad_norm_` does **not**: it clips whenever you call it.
# We hold one window against its reference, clipped once to half its length.


# %%
def clipped_window(clip):
    """Compare a window, clipped by `clip`, with the reference at half its length."""
    accelerator = new_accelerator(4)
    model, loader = accelerator.prepare(fresh()[0], thirty_two)
    reference = equivalence.reference(model, list(thirty_two))
    norm = sum(g.square().sum() for g in reference.gradient.values()).sqrt()
    for gradient in reference.gradient.values():
        gradient /= 2
    for batch in loader:
        with accelerator.accumulate(model):
            add_gradient(accelerator, model, batch)
            clip(accelerator, model, norm / 2)
    return equivalence.compare(model, reference)


# %%
def clip_each_time(accelerator, model, max_norm):
    accelerator.clip_grad_norm_(model.parameters(), max_norm)


# %%
clipped_each_time = clipped_window(clip_each_time)
clipped_each_time

# %% [markdown]
# The sum is cut before it is complete, and what comes later has too much weight.
#
# ### Exercise 3.6: clip once
#
# The function below is called after every backward, inside `accumulate`.
# Clip the gradient of the window to `max_norm`, once.


# %% tags=["exercise-3.6"]
def clip(accelerator, model, max_norm):
    """Clip when the whole window is in `.grad`, and at no other time."""
    ### BEGIN SOLUTION
    if accelerator.sync_gradients:
        accelerator.clip_grad_norm_(model.parameters(), max_norm)
    ### END SOLUTION


# %%
clip = ex.clip(clip)

# %%
clipped_once = clipped_window(clip)
clipped_once

# %% [markdown]
# PyTorch adds a millionth to the norm before it divides by it, and the error shows it.
#
# ### The schedule
#
# A linear schedule from 0.1 to zero, over eight updates of four micro-batches.
# <!-- definition -->
# We note the rate of every update.


# %%
def step_plan(accelerator, scheduler):
    scheduler.step()


# %%
def rates(planned, prepare, plan=step_plan):
    """Learning rate of each update."""
    accelerator = new_accelerator(4)
    model, plain, scheduler = fresh(planned)
    loader = data.loader(tickets, 8, rows=256)
    model, loader, optimizer = accelerator.prepare(model, loader, plain)
    if prepare:
        scheduler = accelerator.prepare(scheduler)
    seen = []
    plain.register_step_pre_hook(lambda *_: seen.append(plain.param_groups[0]["lr"]))
    for batch in loader:
        with accelerator.accumulate(model):
            add_gradient(accelerator, model, batch)
            optimizer.step()
            plan(accelerator, scheduler)
            optimizer.zero_grad()
    return list(range(1, len(seen) + 1)), seen


# %%
with warnings.catch_warnings(record=True) as warned:
    schedules = {
        "prepared": rates(8, prepare=True),
        "not prepared": rates(8, prepare=False),
        "told the micro-batches": rates(32, prepare=True),
    }
print({str(warning.message).split(".  ")[0] for warning in warned})

# %% [markdown]
# PyTorch does warn: the scheduler that was not prepared moved before the optimizer
# did. In a long log the line is easily missed.

# %%
plots.curves(
    schedules,
    xlabel="update",
    ylabel="learning rate",
    alt="Learning rate over eight updates. Prepared, it falls evenly towards zero. Not "
    "prepared, it is zero from the third update on. Told the number of micro-batches, "
    "it stays near its peak.",
    caption="A linear schedule over 8 updates of 4 micro-batches, by what was done.",
)

# %% [markdown]
# So prepare the scheduler, and tell it the number of **updates**.
# On several processes a prepared scheduler moves once for each process at every update:
# plan updates times processes there ([Accelerate's maintainers say
# why](https://github.com/huggingface/accelerate/pull/1013)).
#
# ### Exercise 3.7: a scheduler of your own
#
# Some schedulers are none that `prepare` knows, for example a plain function of yours.
# Step one that is **not** prepared, at the right moment.
# The function is called once a micro-batch, after `optimizer.step()`.


# %% tags=["exercise-3.7"]
def plan_next(accelerator, scheduler):
    """Step a scheduler that is not prepared: once an update."""
    ### BEGIN SOLUTION
    if accelerator.sync_gradients:
        scheduler.step()
    ### END SOLUTION


# %%
plan_next = ex.plan_next(plan_next)

# %% tags=["nbval-check-output"]
print("as prepared:", rates(8, prepare=False, plan=plan_next) == schedules["prepared"])

# %% [markdown]
# ## The short last window
#
# Ten micro-batches, four to a window: Accelerate made three updates.
# But `accelerator.backward` divides by k, whatever the window holds.
#
# ### Prediction 3.8
#
# What will be the ratio of the last window, which holds two micro-batches of equal
# size?

# %% tags=["exercise-3.8"]
### BEGIN SOLUTION
# stub: short_ratio = ...  # your number in place of the dots
short_ratio = 2 / 4
### END SOLUTION

# %%
short_window = watched(accelerate_loop, eighty)
short_ratio = ex.short_ratio(short_ratio, short_window.ratios[-1])
short_window

# %% [markdown]
# Now with four rows fewer, so that the last micro-batch is **ragged**: half as long.

# %%
ragged = data.loader(tickets, 8, rows=76)
on_ragged = watched(accelerate_loop, ragged)
on_ragged

# %% [markdown]
# Its direction is off too: the mean of means is not the mean.
#
# ### Exercise 3.9: an exact window
#
# The recipe is that of the window loop: count the **targets** of the window first, the
# labels that count in the loss.
# A label of -100 is ignored by the loss and is no target. <!-- definition -->
# Each micro-batch adds the sum of its losses, divided by all the window's targets.
#
# The Accelerator is made with k = 1, so that nothing else divides.
# Keep no more than one micro-batch in memory at a time.


# %% tags=["exercise-3.9"]
def exact_window(accelerator, model, window):
    """Add the gradient of the mean loss over all targets of a list of micro-batches."""
    ### BEGIN SOLUTION
    counts = [(batch["labels"] != -100).sum() for batch in window]
    for batch, count in zip(window, counts, strict=True):
        loss = model(**batch).loss
        accelerator.backward(loss * count / sum(counts))
    ### END SOLUTION


# %%
exact_window = ex.exact_window(exact_window)

# %% [markdown]
# Around it goes the window loop. `training.windows` cuts a prepared loader as well.
# There is no `accumulate`, so every call of `step` is meant.


# %%
def exact_loop(model, loader, optimizer, scheduler, accumulation_steps):
    accelerator = Accelerator(cpu=on_cpu)  # gradient_accumulation_steps=1
    accelerator.sync_gradients = True  # a loop before may have left it at False
    ready = prepared(accelerator, model, loader, optimizer, scheduler)
    model, loader, optimizer, scheduler = ready
    for window in training.windows(loader, accumulation_steps):
        exact_window(accelerator, model, window)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()


# %%
exact = watched(exact_loop, ragged)
exact

# %% [markdown]
# Exact, the short and ragged window included.
# Clipping goes between `exact_window` and `optimizer.step()`, with no condition.
#
# If your Accelerator has to keep its k, multiply each share by
# `accelerator.gradient_accumulation_steps`: the division then cancels.
# On several processes targets are counted over all of them, which lesson 6 does.
#
# ### Why not inside `accumulate`?
#
# It would look natural: the same windows and shares, times k, in an `accumulate`
# block.


# %%
def windows_in_accumulate(model, loader, optimizer, scheduler, accumulation_steps):
    k = accumulation_steps
    accelerator = new_accelerator(k)
    ready = prepared(accelerator, model, loader, optimizer, scheduler)
    model, loader, optimizer, scheduler = ready
    for window in training.windows(loader, k):
        targets = sum(training.count_targets(batch) for batch in window)
        for batch in window:
            with accelerator.accumulate(model):
                share = model(**batch).loss * len(batch["labels"]) / targets
                accelerator.backward(share * k)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()


# %%
for rows in (64, 76):
    print(f"{rows} rows")
    print(watched(windows_in_accumulate, data.loader(tickets, 8, rows=rows)))

# %% [markdown]
# `accumulate` asks the loader whether it has handed out its last micro-batch.
# But a window is read as a whole, before its first micro-batch is used.
#
# - With 64 rows the answer is yes for every micro-batch of the last window, so each
#   makes an update.
# - With 76 rows the loader has ended by then, and the short window makes none.
#
# It also leaves `sync_gradients` at False, for every Accelerator of the process.
# A new one starts with it, and its optimizer does nothing, without a word.

# %% tags=["nbval-check-output"]
watched(windows_in_accumulate, ragged)
accelerator = new_accelerator(1)
print("sync_gradients of a new one:", accelerator.sync_gradients)
model, optimizer, scheduler = fresh()
steps_reached = Counter()
count_calls(optimizer, "step", steps_reached)
accelerator.prepare(optimizer).step()
print("steps that reach the optimizer:", steps_reached["step"])
print("exact_loop is exact all the same:", watched(exact_loop, ragged).exact)

# %% [markdown]
# That is what the second line of `exact_loop` is for.
# In a script with one Accelerator it changes nothing.

# %% [markdown]
# ## Several models
#
# An encoder and a head, trained together: which of them does `accumulate` need?
# On one process the gradient does not depend on it.
# On several, `accumulate` holds back the exchange of gradients with `no_sync`, for the
# models that it is given.
# We count what it holds back.


# %%
class Counting(Accelerator):
    """An Accelerator that counts for which model it holds the exchange back."""

    def no_sync(self, model):
        self.held_back[type(model).__name__] += 1
        return super().no_sync(model)


def counting(accumulation_steps):
    made = Counting(cpu=on_cpu, gradient_accumulation_steps=accumulation_steps)
    made.held_back = Counter()
    return made


# %%
class Encoder(torch.nn.Linear):
    """Five numbers in, three out."""


class Head(torch.nn.Linear):
    """Three numbers in, two out."""


# %%
torch.manual_seed(0)
encoder, head = Encoder(5, 3).to(device), Head(3, 2).to(device)
inputs = torch.randn(32, 5, device=device)
accelerator = counting(4)
for x in inputs.split(4):
    with accelerator.accumulate(encoder):
        accelerator.backward(head(encoder(x)).square().mean())
held_of_one = dict(accelerator.held_back)
print("accumulate(encoder):", held_of_one)

# %% [markdown]
# Eight micro-batches, two of which end a window: the encoder is held back in the other
# six, the head never.
# On several processes the head would be exchanged after every backward.
# Its gradient is right all the same, and time is lost.
#
# ### Exercise 3.10: both of them
#
# Write the block for two models, `accumulate` included, up to the backward pass.
# `loss_of(encoder, head, batch)` gives the mean loss of a micro-batch.


# %% tags=["exercise-3.10"]
def add_both(accelerator, encoder, head, batch, loss_of):
    """Add the gradients of both models; hold both back until the window ends."""
    ### BEGIN SOLUTION
    with accelerator.accumulate(encoder, head):
        loss = loss_of(encoder, head, batch)
        accelerator.backward(loss)
    ### END SOLUTION


# %%
add_both = ex.add_both(add_both)


# %%
def loss_of(encoder, head, x):
    return head(encoder(x)).square().mean()


accelerator = counting(4)
for x in inputs.split(4):
    add_both(accelerator, encoder, head, x, loss_of)
held_of_both = dict(accelerator.held_back)
print("both:", held_of_both)

# %% [markdown]
# ## Side by side
#
# Three loops on 76 rows: two full windows, then a short and ragged one.

# %%
loops = {
    "hand loop": hand_loop,
    "accumulate": accelerate_loop,
    "exact windows": exact_loop,
}
seen = {name: watched(loop, ragged) for name, loop in loops.items()}

# %%
plots.window_ratios(
    {name: updates.ratios for name, updates in seen.items()},
    alt="Ratio of three windows for three loops. All are one on the two full windows. "
    "On the short window the hand loop makes no update, accumulate is far too short, "
    "and exact windows are at one.",
    caption="Ratio of each update: 76 rows, micro-batches of 8, k = 4.",
)

# %% [markdown]
# And what one epoch does to the weights, held against training on the large batches
# themselves. The distance is divided by the length of the way that training went.


# %%
def weights_after(loop, loader, accumulation_steps):
    model, optimizer, scheduler = fresh()
    loop(model, loader, optimizer, scheduler, accumulation_steps)
    return parameters_to_vector(model.parameters()).detach()


# %%
start = parameters_to_vector(fresh()[0].parameters()).detach()
goal = weights_after(hand_loop, data.loader(tickets, 32, rows=76), 1)
way = (goal - start).norm()
distances = {
    name: ((weights_after(loop, ragged, 4) - goal).norm() / way).item()
    for name, loop in loops.items()
}

# %%
plots.error_bars(
    distances,
    alt="Distance of the weights from large-batch training, by loop, on a logarithmic "
    "axis: "
    + ", ".join(f"{name} {error:.1e}" for name, error in distances.items())
    + ".",
    caption="How far the weights end from large-batch training, by loop.",
)

# %% [markdown]
# ## What you measured

# %%
unscheduled = schedules["not prepared"][1].index(0) + 1
only_last, last = cleared.comparisons[0], exact.comparisons[-1]
print(f"not prepared:          {not_prepared.extra} updates too many")
print(f"prepared:              step called {called['step']}, done {reached['step']}")
print(f"accelerator.backward:  ratio {divided.ratio:.2f} on one micro-batch")
print(f"divided twice:         ratio {twice.ratios[0]:.2f}")
print(f"zero_grad first:       relative error {only_last.relative_error:.2f}")
print(f"clipped each time:     relative error {clipped_each_time.relative_error:.2f}")
print(f"schedule not prepared: rate 0 from update {unscheduled} of 8")
print(f"short last window:     ratio {short_window.ratios[-1]:.2f}")
print(f"exact windows:         relative error {last.relative_error:.0e}")

# %% [markdown]
# - `accumulate` says when a window ends. Prepared objects obey; others do not.
# - `accelerator.backward` divides by k, so nothing else may.
# - Clip, and step what is not prepared, behind `if accelerator.sync_gradients`.
# - Accelerate updates at the end of the loader, and still divides by k. Windows of your
#   own, divided by their targets, are exact.
#
# Your marks so far:

# %%
exercises.progress()

# %% [markdown]
# **Next:** [lesson 4](04_trainer.ipynb) hands the whole loop to the Trainer, and
# audits it.
#
# ### Sources
#
# - [Accelerate on gradient
#   accumulation](https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation)
# - [The source of `accumulate` and
#   `backward`](https://github.com/huggingface/accelerate/blob/main/src/accelerate/accelerator.py)
# - [The scheduler that stepped too early: a report of
#   2023](https://github.com/huggingface/accelerate/issues/963)
# - [Clipping under accumulation: a report of
#   2022](https://github.com/huggingface/accelerate/issues/641)
# - [Several models in one `accumulate`: the pull request that brought
#   it](https://github.com/huggingface/accelerate/pull/1708)
