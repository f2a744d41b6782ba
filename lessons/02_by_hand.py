# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 2 · Accumulate by hand
#
# {{buttons}}
#
# **You will be able to**
#
# - write gradient accumulation in PyTorch, a line at a time
# - prove that it gives the large batch's gradient
# - find and repair the fault that most published loops have
# - say where loss, clipping, schedule and `zero_grad` belong, and show why
#
# About 60 minutes. <!-- definition --> You need nothing from lesson 1's notebook.

# %% tags=["setup"]

# %%
import copy
import inspect
import textwrap
from types import SimpleNamespace

import torch
from torch.nn.utils import clip_grad_norm_, parameters_to_vector
from transformers import get_linear_schedule_with_warmup

from helpers import data, equivalence, exercises, memory, models, plots, runtime
from helpers import training
from helpers.checks import lesson_02 as ex

# %% [markdown]
# ## The plan
#
# We want the update that a **large batch** would give.
# It does not fit in memory, so we cut it into **micro-batches**: rows that go through
# the model together.
# Their gradients are added up, and only then do the weights move.
#
# - A **window** is all the micro-batches between two updates.
# - An **update** is one step of the optimizer.
# - The **accumulation steps**, k for short, are the micro-batches in a full window.
# - The **effective batch** is all the rows of a window.

# %%
plots.cut_into_micro_batches(
    rows=80,
    micro_batch=8,
    accumulation_steps=4,
    alt="Eighty rows cut into ten micro-batches of eight. The first four make window "
    "1, the next four window 2, and the last two are left for a short window 3.",
    caption="One epoch of 80 rows: micro-batches of 8, four to a window, two over.",
)

# %% [markdown]
# Our data are e-mails to a support desk, each **urgent** or not.
# The model is a small DistilBERT.
# We take it in float64, so that rounding cannot hide a mistake or look like one.

# %%
tickets = data.load("tickets")
print(tickets.train[0]["subject"], "|", textwrap.fill(tickets.train[0]["body"], 80))

# %% [markdown]
# A model in the middle of training is the honest case: its micro-batches disagree
# about where to go.
# So we train it for one epoch first, plainly, with nothing accumulated.

# %%
device = runtime.device()
trained = models.classifier(seed=1).to(device)
optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-3)
for batch in data.loader(tickets, 16, shuffle=True):
    trained(**batch.to(device)).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model = copy.deepcopy(trained).double()

# %% [markdown]
# The same rows twice: as one large batch, and as micro-batches.

# %%
large = next(iter(data.loader(tickets, 32, rows=32))).to(device)
small = [batch.to(device) for batch in data.loader(tickets, 8, rows=32)]
print("large:", tuple(large["input_ids"].shape))
print("small:", [tuple(batch["input_ids"].shape) for batch in small])

# %% [markdown]
# Each micro-batch is padded to its own longest row only.
# The attention mask hides the padding, so it changes nothing.
#
# ## Seven lines, one at a time
#
# First, inputs and targets go to the **device** that the model is on.

# %%
batch = small[0].to(device)
{name: tuple(tensor.shape) for name, tensor in batch.items()}

# %% [markdown]
# Second, a forward pass with the labels.
# Third, the loss: the model has averaged it over the rows of the micro-batch.

# %%
output = model(**batch)
loss = output.loss
print(f"mean loss of {len(batch['labels'])} rows: {loss.item():.4f}")

# %% [markdown]
# ### Exercise 2.1: divide the loss
#
# The losses of a window will be added up.
# Their sum should be the mean loss of the large batch.
# Return the share that this micro-batch has in it.
# All micro-batches have the same number of rows for now.


# %% tags=["exercise-2.1"]
def scaled_loss(loss, accumulation_steps):
    """The share of one micro-batch's mean loss in the mean loss of its window."""
    ### BEGIN SOLUTION
    return loss / accumulation_steps
    ### END SOLUTION


# %%
scaled_loss = ex.scaled_loss(scaled_loss)

# %% [markdown]
# Stuck? Run `ex.scaled_loss.hint()` in a new cell, more than once if you like, and
# `ex.scaled_loss.solution()` at the end. Every exercise has both.
#
# Fifth, the backward pass. It does not overwrite `.grad`, it **adds** to it.
# Watch the bias of the last layer:

# %%
model.zero_grad()
for batch in small[:2]:
    scaled_loss(model(**batch).loss, 4).backward()
    print(model.classifier.bias.grad.tolist())

# %% [markdown]
# That is all there is to accumulation.
# The figure shows it for the whole gradient, one arrow a micro-batch.
# It looks at the plane in which the micro-batches differ most.

# %%
parts = []
for batch in small:
    model.zero_grad()
    scaled_loss(model(**batch).loss, 4).backward()
    parts.append(parameters_to_vector([p.grad for p in model.parameters()]))
model.zero_grad()
model(**large).loss.backward()
whole = parameters_to_vector([p.grad for p in model.parameters()])

# %%
plots.gradients_add_up(
    parts,
    whole,
    alt="Four arrows, the gradients of four micro-batches, laid head to tail. The last "
    "one ends where the single arrow of the large batch ends.",
    caption="Four micro-batch gradients, laid head to tail, end at the large batch's.",
)

# %% [markdown]
# ### Exercise 2.2: is it time?
#
# Sixth, the update: not after every micro-batch, but after every k-th.
# In `for i, batch in enumerate(loader)`, the counter starts at zero.
# When is the update due?


# %% tags=["exercise-2.2"]
def update_now(i, accumulation_steps):
    """Whether the update comes after micro-batch i, counted from 0."""
    ### BEGIN SOLUTION
    return (i + 1) % accumulation_steps == 0
    ### END SOLUTION


# %%
update_now = ex.update_now(update_now)

# %% [markdown]
# ### Exercise 2.3: what an update is
#
# Three calls, and their order matters.
# The optimizer uses the gradient and the learning rate of now.
# The scheduler plans the next rate.
# The next window must start from an empty `.grad`.


# %% tags=["exercise-2.3"]
def after_window(optimizer, scheduler):
    """One update: move the weights, plan the next rate, empty `.grad`."""
    ### BEGIN SOLUTION
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    ### END SOLUTION


# %%
after_window = ex.after_window(after_window)

# %% [markdown]
# ## The loop of the textbooks
#
# Put together, this is the loop that most tutorials show.


# %%
def textbook_loop(model, loader, optimizer, scheduler, accumulation_steps):
    for i, batch in enumerate(loader):
        batch = batch.to(device)
        loss = model(**batch).loss / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()


# %%
plots.one_update(
    accumulation_steps=4,
    alt="A time axis: forward and backward of four micro-batches, each adding to "
    ".grad, then one optimizer step, one scheduler step and zero_grad.",
    caption="One window: four times forward and backward, then a single update.",
)

# %% [markdown]
# ### Does it give the large batch's gradient?
#
# We do not take it on trust.
# The **reference** is one backward pass over all rows of the window, in float64, with
# dropout off.
# `equivalence.watch` looks at `.grad` whenever the optimizer steps, and compares:
#
# - **ratio**: how long the gradient is, along the reference
# - **residual**: what still differs when the length is put right
# - **relative error**: the difference, divided by the length of the reference


# %%
def fresh(updates=3):
    """A copy of the model with the same weights each time, optimizer and schedule."""
    model = copy.deepcopy(trained).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimizer, get_linear_schedule_with_warmup(optimizer, 0, updates)


# %%
def watched(loop, loader, accumulation_steps=4):
    """Run one epoch of a loop and compare each of its updates with the reference."""
    model, optimizer, scheduler = fresh()
    windows = list(training.windows(loader, accumulation_steps))
    with equivalence.watch(model, optimizer, windows) as updates:
        loop(model, loader, optimizer, scheduler, accumulation_steps)
    return updates


# %% [markdown]
# Sixty-four rows make two full windows.

# %%
watched(textbook_loop, data.loader(tickets, 8, rows=64))

# %% [markdown]
# Ratio one, and a residual of the size of rounding.
# On full windows of equal micro-batches the loop is **exact**: not close, but the same
# gradient.
#
# ## Where it breaks
#
# Real data seldom divide.
# Take 80 rows, as in the first figure: ten micro-batches, four to a window.
#
# ### Prediction 2.4
#
# How many updates will the textbook loop make? Type the number, then run on.

# %% tags=["exercise-2.4"]
### BEGIN SOLUTION
# stub: updates_made = ...  # your number in place of the dots
updates_made = 2
### END SOLUTION

# %%
eighty = data.loader(tickets, 8, rows=80)
short_window = watched(textbook_loop, eighty)
updates_made = ex.updates_made(updates_made, len(short_window.comparisons))
short_window

# %% [markdown]
# The last window gets **no update**.
# Its gradient is not even lost: it stays in `.grad` and leaks into the next epoch.
# Run two epochs and look at the first update of the second one.

# %%
windows = list(training.windows(eighty, 4))
model, optimizer, scheduler = fresh(4)
with equivalence.watch(model, optimizer, windows[:2] + windows[:2]) as two_epochs:
    for _epoch in range(2):
        textbook_loop(model, eighty, optimizer, scheduler, 4)
two_epochs

# %% [markdown]
# The third update is no longer the gradient of its window.
# It carries stale micro-batches, taken at older weights.
#
# ### The usual repair
#
# Many loops therefore also step at the last micro-batch.


# %%
def repaired_loop(model, loader, optimizer, scheduler, accumulation_steps):
    for i, batch in enumerate(loader):
        batch = batch.to(device)
        loss = model(**batch).loss / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader):
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()


# %%
usual_repair = watched(repaired_loop, eighty)
usual_repair

# %% [markdown]
# Now there are three updates.
# The last one points the right way and is too short: two micro-batches, divided by
# four.
#
# ### Exercise 2.5: the size of the window
#
# Divide by what is really there.
# How many micro-batches are in the window that holds micro-batch `i`?


# %% tags=["exercise-2.5"]
def window_size(i, batches, accumulation_steps):
    """Micro-batches in the window of micro-batch i, of `batches` in all."""
    ### BEGIN SOLUTION
    start = i // accumulation_steps * accumulation_steps
    return min(accumulation_steps, batches - start)
    ### END SOLUTION


# %%
window_size = ex.window_size(window_size)


# %%
def sized_loop(model, loader, optimizer, scheduler, accumulation_steps):
    for i, batch in enumerate(loader):
        batch = batch.to(device)
        size = window_size(i, len(loader), accumulation_steps)
        (model(**batch).loss / size).backward()
        if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader):
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()


watched(sized_loop, eighty)

# %% [markdown]
# All three are exact. Are we done?
# Take four rows fewer, so that the last micro-batch is **ragged**: half as long.

# %%
ragged = data.loader(tickets, 8, rows=76)
print("rows:", [len(batch["labels"]) for batch in ragged])
mean_of_means = watched(sized_loop, ragged)
mean_of_means

# %% [markdown]
# The last window is off again, and now in its direction too.
# The mean of means is not the mean: a row of the small micro-batch counts twice as
# much as the others.
#
# ### Exercise 2.6: an exact window
#
# There is one rule that covers it all.
# Count the **targets** of the window: the labels that count in the loss.
# A label of -100 is ignored by the loss and is no target. <!-- definition -->
# Then each micro-batch adds the **sum** of its losses, divided by all the window's
# targets.
#
# Leave the gradient of the window's mean loss in `.grad`.
# Keep no more than one micro-batch in memory at a time.


# %% tags=["exercise-2.6"]
def window_gradient(model, window):
    """Add the gradient of the mean loss over all targets of a list of micro-batches."""
    ### BEGIN SOLUTION
    counts = [(batch["labels"] != -100).sum() for batch in window]
    for batch, count in zip(window, counts, strict=True):
        loss = model(**batch.to(device)).loss
        (loss * count / sum(counts)).backward()
    ### END SOLUTION


# %%
window_gradient = ex.window_gradient(window_gradient)

# %% [markdown]
# Now walk over windows, and no modulo is left.


# %%
def window_loop(model, loader, optimizer, scheduler, accumulation_steps):
    for window in training.windows(loader, accumulation_steps):
        window_gradient(model, window)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()


window_rule = watched(window_loop, ragged)
window_rule

# %% [markdown]
# Exact, everywhere. Side by side:

# %%
loops = {
    "textbook loop": textbook_loop,
    "usual repair": repaired_loop,
    "divided by the window's size": sized_loop,
    "divided by its targets": window_loop,
}
on_ragged = {name: watched(loop, ragged) for name, loop in loops.items()}

# %%
plots.window_ratios(
    {name: seen.ratios for name, seen in on_ragged.items()},
    alt="Ratio of three windows for four loops. All are one on the two full windows. "
    "On the short window the textbook loop has no update, the usual repair and the "
    "third loop are off, and the last one is at one.",
    caption="Ratio of each update: 76 rows, micro-batches of 8, k = 4.",
)

# %% tags=["nbval-check-output"]
for name, seen in on_ragged.items():
    print(f"{name:30} updates: {len(seen.comparisons)}   all exact: {seen.exact}")

# %% [markdown]
# ### What it does to the weights
#
# One epoch with each loop, held against training on the large batches themselves.
# The distance is divided by the length of the way that training went.


# %%
def weights_after(loop, loader, accumulation_steps):
    model, optimizer, scheduler = fresh()
    loop(model, loader, optimizer, scheduler, accumulation_steps)
    return parameters_to_vector(model.parameters()).detach()


# %%
start = parameters_to_vector(fresh()[0].parameters()).detach()
goal = weights_after(textbook_loop, data.loader(tickets, 32, rows=76), 1)
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
# ## Everything in its place
#
# Four more things belong to a loop, and each has a wrong place.
# We try the wrong ones on one full window.


# %%
def faulty_window(model, window, fault, max_norm=1.0):
    """The gradient of a window, with one fault built in."""
    for batch in window:
        if fault == "zero_grad before each micro-batch":
            model.zero_grad()
        loss = model(**batch).loss
        if fault != "loss not divided":
            loss = loss / len(window)
        if fault == "loss divided twice":
            loss = loss / len(window)
        loss.backward()
        if fault == "clipped after each backward":
            clip_grad_norm_(model.parameters(), max_norm)
    if fault != "never clipped":
        clip_grad_norm_(model.parameters(), max_norm)


# %% [markdown]
# The reference is clipped as well: once, to half its length, so that the limit bites.


# %%
def fault_error(fault):
    """Compare a faulty window with the clipped reference."""
    model = copy.deepcopy(trained).double()
    reference = equivalence.reference(model, small)
    limit = sum(g.square().sum() for g in reference.gradient.values()).sqrt() / 2
    for gradient in reference.gradient.values():
        gradient /= 2
    faulty_window(model, small, fault, limit)
    return equivalence.compare(model, reference)


# %%
faults = [
    "no fault",
    "loss not divided",
    "loss divided twice",
    "zero_grad before each micro-batch",
    "clipped after each backward",
    "never clipped",
]
measured = {fault: fault_error(fault) for fault in faults}
for fault, found in measured.items():
    print(f"{fault:35} ratio {found.ratio:.3f}   residual {found.residual:.3f}")

# %%
plots.error_bars(
    {fault: found.relative_error for fault, found in measured.items()},
    rounding=1e-5,
    alt="Relative error of one clipped window by fault: "
    + ", ".join(f"{fault} {c.relative_error:.1e}" for fault, c in measured.items())
    + ".",
    caption="Relative error of one window, by what was put in the wrong place.",
)

# %% [markdown]
# Look at "loss not divided": clipping cut it to the right length, so it shows no error.
# That is luck, and it hides the fault.
# The clipping limit now acts on a gradient that is k times too large, so it cuts where
# the large batch would not be cut at all.

# %% tags=["nbval-check-output"]
model = copy.deepcopy(trained).double()
faulty_window(model, small, "loss not divided", max_norm=1e9)
print(equivalence.compare(model, equivalence.reference(model, small)).verdict)

# %% [markdown]
# ### The loss that you log
#
# The divided loss of one micro-batch is not the loss of the window.
# What you want to log is the sum of the shares.

# %%
shares = [model(**batch).loss.item() / 4 for batch in small]
print(f"loss of the large batch:      {model(**large).loss.item():.4f}")
print(f"sum of the divided losses:    {sum(shares):.4f}")
print(f"the last divided loss alone:  {shares[-1]:.4f}")

# %% [markdown]
# Take `.item()` before you add: a sum of loss tensors keeps all their graphs alive.
#
# ### The schedule counts updates
#
# Here the schedule is told the number of micro-batches where it is stepped once an
# update, or the other way round.


# %%
def rates(planned, steps_per_update, updates=8):
    """Learning rate of each update under a linear schedule from 1 to 0."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = get_linear_schedule_with_warmup(optimizer, 0, planned)
    seen = []
    for _update in range(updates):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        for _ in range(steps_per_update):
            scheduler.step()
    return list(range(1, updates + 1)), seen


# %%
schedules = {
    "once an update": rates(8, 1),
    "every micro-batch": rates(8, 4),
    "told the micro-batches": rates(32, 1),
}

# %%
plots.curves(
    schedules,
    xlabel="update",
    ylabel="learning rate",
    alt="Learning rate over eight updates. Stepped once an update it falls evenly "
    "towards zero. Stepped every micro-batch it is zero from the third update on. Told "
    "the number of micro-batches it ends near four fifths of its peak.",
    caption="A linear schedule over 8 updates of 4 micro-batches, right and wrong.",
)

# %% [markdown]
# ### Exercise 2.7: how many updates?
#
# The schedule needs the number of updates in the whole training.
# Mind the ragged micro-batch, the short window, and that no window reaches into the
# next epoch.


# %% tags=["exercise-2.7"]
def total_updates(rows, micro_batch, accumulation_steps, epochs):
    """Updates that training makes: one for each window, short ones included."""
    ### BEGIN SOLUTION
    batches = -(-rows // micro_batch)
    return -(-batches // accumulation_steps) * epochs
    ### END SOLUTION


# %%
total_updates = ex.total_updates(total_updates)

# %% [markdown]
# ### Question 2.8
#
# Where does clipping belong?
#
# - **a** after each backward
# - **b** once, after the last backward of the window and before the step
# - **c** after the step

# %% tags=["exercise-2.8"]
### BEGIN SOLUTION
# stub: where_to_clip = ...  # "a", "b" or "c"
where_to_clip = "b"
### END SOLUTION

# %%
where_to_clip = ex.where_to_clip(where_to_clip)

# %% [markdown]
# ### Exercise 2.9: your own loop
#
# Write the whole loop: exact windows, one clip, one step, one step of the schedule, an
# empty `.grad` at the end.
# You may use `training.windows` and your `window_gradient`.


# %% tags=["exercise-2.9"]
def own_loop(model, loader, optimizer, scheduler, accumulation_steps, max_norm):
    """One epoch of gradient accumulation."""
    ### BEGIN SOLUTION
    for window in training.windows(loader, accumulation_steps):
        window_gradient(model, window)
        clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    ### END SOLUTION


# %%
own_loop = ex.own_loop(own_loop)

# %% [markdown]
# ## What cannot be accumulated
#
# Accumulation adds up over rows.
# It reproduces the large batch where the loss is a **sum over rows**, and each row's
# part depends on that row alone.
# Networks that differ in one layer:


# %%
class Network(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        torch.manual_seed(0)
        body = [torch.nn.Linear(16, 32), layer, torch.nn.Tanh(), torch.nn.Linear(32, 2)]
        self.body = torch.nn.Sequential(*body).double()

    def forward(self, x, labels):
        loss = torch.nn.functional.cross_entropy(self.body(x), labels)
        return SimpleNamespace(loss=loss)


# %%
def error_of(model, micro_batches):
    """Relative error of accumulation over some micro-batches of equal size."""
    reference = equivalence.reference(model, micro_batches)
    for batch in micro_batches:
        (model(**batch).loss / len(micro_batches)).backward()
    return equivalence.compare(model, reference).relative_error


# %%
torch.manual_seed(1)
x, labels = torch.randn(32, 16, dtype=torch.float64), torch.randint(2, (32,))


def cut(rows):
    """The 32 rows as micro-batches of so many rows."""
    pieces = zip(x.split(rows), labels.split(rows), strict=True)
    return [{"x": a, "labels": b} for a, b in pieces]


# %%
layers = {
    "LayerNorm": lambda: torch.nn.LayerNorm(32),
    "BatchNorm, training": lambda: torch.nn.BatchNorm1d(32),
    "BatchNorm, frozen": lambda: torch.nn.BatchNorm1d(32).eval(),
    "Dropout, on": lambda: torch.nn.Dropout(0.2),
}
for name, layer in layers.items():
    for rows in (32, 8, 2):
        error = error_of(Network(layer()), cut(rows))
        print(f"{name:20} micro-batches of {rows:2}: {error:.1e}")

# %% [markdown]
# - **LayerNorm** works within a row: exact for every cut.
# - **BatchNorm** in training mode takes its mean and variance over the rows that it
#   sees. With micro-batches it is another function; frozen, it is exact.
# - **Dropout** differs from the reference even with no cut at all. It is not an error:
#   the mask is drawn anew, and accumulation draws more than once. Compare gradients
#   with dropout off, as `equivalence.reference` does.
#
# Losses that compare rows with each other are no sum over rows either.
# An example is **in-batch negatives**, as used to train sentence embeddings: each row
# has to pick its partner among all the rows of the batch.


# %%
class Pairs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Linear(16, 8).double()

    def forward(self, x, labels):
        left, right = self.embed(x), self.embed(x + 0.5)
        partner = torch.arange(len(x))
        loss = torch.nn.functional.cross_entropy(left @ right.T, partner)
        return SimpleNamespace(loss=loss)


# %%
for rows in (32, 16, 8, 1):
    error = error_of(Pairs(), cut(rows))
    print(f"in-batch negatives, micro-batches of {rows:2}: {error:.1e}")

# %% [markdown]
# Alone in its micro-batch, a row has nobody else to be confused with, and the gradient
# is gone.
#
# ### Question 2.10
#
# Which of these is another function when the batch is cut?
#
# - **a** LayerNorm
# - **b** BatchNorm in training mode
# - **c** dropout

# %% tags=["exercise-2.10"]
### BEGIN SOLUTION
# stub: cannot = ...  # "a", "b" or "c"
cannot = "b"
### END SOLUTION

# %%
cannot = ex.cannot(cannot)

# %% [markdown]
# ## What it saves, and what it costs
#
# Now the point of it all: memory.
# `memory.Meter` counts the bytes of every tensor that is alive during one window.
# The effective batch stays at 64 rows, the micro-batch shrinks.


# %%
def one_window(micro_batch):
    """Peak bytes of a window of 64 rows, and samples per second without the meter."""
    model = models.classifier().to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    window = list(data.loader(tickets, micro_batch, rows=64))
    training.train(model, window, optimizer=optimizer, progress=False)  # warm up
    options = {"optimizer": optimizer, "accumulation_steps": 64, "progress": False}
    updates = training.train(model, window, epochs=5, **options).updates
    seconds = min(update.seconds for update in updates)  # the least disturbed
    with memory.Meter(model, optimizer) as meter:
        training.train(model, window, meter=meter, **options)
    return meter, 64 / seconds


# %%
large_meter, large_speed = one_window(64)
large_meter

# %% [markdown]
# Almost everything is activations, the intermediate results that backward needs.
# The rest is the **floor**: weights, gradients, optimizer state.
#
# ### Prediction 2.11
#
# How many MiB will the peak be with micro-batches of 8 rows?

# %%
floor = sum(large_meter.at_peak[kind] for kind in memory.KINDS[:3])
print(f"peak at 64 rows {large_meter.peak / memory.MiB:.1f} MiB")
print(f"of it the floor {floor / memory.MiB:.1f} MiB")

# %% tags=["exercise-2.11"]
### BEGIN SOLUTION
# stub: memory_at_8 = ...  # MiB
memory_at_8 = (floor + (large_meter.peak - floor) * 8 / 64) / memory.MiB
### END SOLUTION

# %%
sizes = [64, 32, 16, 8, 4, 2, 1]
windows_measured = {64: (large_meter, large_speed)}
windows_measured |= {size: one_window(size) for size in sizes[1:]}
peaks = {size: meter.peak for size, (meter, _) in windows_measured.items()}
memory_at_8 = ex.memory_at_8(memory_at_8, peaks[8] / memory.MiB)

# %%
speeds = [windows_measured[size][1] for size in sizes]
plots.memory_and_speed(
    sizes,
    [peaks[size] for size in sizes],
    speeds,
    floor=floor,
    alt="Two panels over micro-batches of 64 down to 1 row. Peak memory falls from "
    f"{peaks[64] / memory.MiB:.1f} to {peaks[1] / memory.MiB:.1f} MiB and flattens "
    "near the floor. Samples per second fall as well.",
    caption="One window of 64 rows: peak memory and speed by micro-batch.",
)

# %% [markdown]
# Memory falls almost in proportion, until the floor is reached.
# Speed falls too: the same arithmetic, cut into smaller pieces.
# Accumulation buys memory, not time.
# Use the largest micro-batch that fits.
#
# ## The shared loop
#
# From here on the course uses `training.train`.
# At its heart is what you have just built:

# %%
print(inspect.getsource(training.windows))
print(inspect.getsource(training.accumulate))

# %% [markdown]
# `total`, `size`, `exchange` and `take_part` do something on several processes only.
# Lesson 6 is about those.
# Around it are the things that a real run needs: mixed precision, a history, a word on
# which micro-batch did not fit.
# Read [the whole loop](../helpers/training.py); it is short.
# We train on the tickets, in float32 now: micro-batches of 8, four to a window.

# %%
model = models.classifier().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
updates = total_updates(len(tickets.train), 8, 4, epochs=3)
history = training.train(
    model,
    data.loader(tickets, 8, shuffle=True),
    optimizer=optimizer,
    accumulation_steps=4,
    epochs=3,
    scheduler=get_linear_schedule_with_warmup(optimizer, updates // 10, updates),
    max_norm=1.0,
    validation=data.loader(tickets, 64, split="validation"),
)
history

# %%
final = history.evaluations[-1]
history.plot(
    alt="Four panels over the updates: the loss falls from "
    f"{history.updates[0].loss:.2f} to {history.updates[-1].loss:.2f}, accuracy and "
    "F1 rise from epoch to epoch, the learning rate rises and then falls to zero, the "
    "gradient norm jumps about.",
    caption="Training with micro-batches of 8 and an effective batch of 32.",
)

# %% [markdown]
# And is the last rate zero, as the plan says? Was every row of each epoch used?

# %% tags=["nbval-check-output"]
print("updates as planned:", len(history.updates) == updates)
print("rate at the end:", optimizer.param_groups[0]["lr"])
print("targets seen:", sum(u.targets for u in history.updates), "of", 3 * 2036)

# %% [markdown]
# ## What you measured

# %%
made = len(short_window.comparisons)
off, exact = mean_of_means.comparisons[-1], window_rule.comparisons[-1]
print(f"textbook loop, short window:  {made} of {short_window.windows} updates made")
print(f"usual repair, short window:   ratio {usual_repair.ratios[-1]:.2f}")
print(f"mean of means, ragged window: relative error {off.relative_error:.2f}")
print(f"divided by its targets:       relative error {exact.relative_error:.0e}")
print(f"peak memory, 64 rows to 8:    {peaks[64] / peaks[8]:.1f} times less")
print(f"speed, 64 rows to 8:          {speeds[3] / speeds[0]:.2f} of it")
print(f"validation after 3 epochs:    F1 {final['f1']:.3f}")

# %% [markdown]
# - Backward adds, so gradients accumulate by themselves.
# - Divide by the window's own number of targets, and short windows and ragged batches
#   are exact.
# - Clip, step, schedule and zero once a window. Log the sum of the shares.
# - What mixes rows, such as BatchNorm or in-batch negatives, cannot be accumulated.
#
# Your marks so far:

# %%
exercises.progress()

# %% [markdown]
# **Next:** [lesson 3](03_accelerator.ipynb) hands the loop to Accelerate, and checks
# what becomes of it.
#
# ### Sources
#
# - [PyTorch on gradient accumulation and mixed
#   precision](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
# - [Hugging Face: the loss normalisation fault of
#   2024](https://huggingface.co/blog/gradient_accumulation)
# - [Gao et al. 2021, caching gradients for in-batch
#   negatives](https://arxiv.org/abs/2101.06983)
