# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 1 · The memory limit
#
# {{buttons}}
#
# **You will be able to**
#
# - measure how much steadier the gradient of a large batch is, and what that is worth
# - say what fills the memory in training, and measure each part
# - run into the limit on purpose, and come out of it with a smaller batch
#
# About 45 minutes. <!-- definition --> No GPU and no network needed.

# %% tags=["setup"]

# %%
import copy
import itertools
import textwrap

import torch
from torch.nn.utils import parameters_to_vector

from helpers import data, exercises, memory, models, plots, runtime, training
from helpers.checks import lesson_01 as ex

# %% [markdown]
# ## Where this lesson stands
#
# The course is a path of eight lessons.
# The first four are the core, the others go further.

# %%
plots.course_map(
    current=1,
    alt="Eight lessons as a path, the first one marked: The memory limit. Around the "
    "path stand data preparation, distributed training, efficient training and "
    "optimizers.",
    caption="The course: four lessons at the core, four that go further.",
)

# %% [markdown]
# Training costs **memory**, **communication** and **computation**.
# Gradient accumulation is about the first.

# %%
plots.three_efficiencies(
    alt="Three columns. Memory: accumulation keeps fewer activations at once. "
    "Communication: one synchronisation a window instead of one a micro-batch. "
    "Computation: the same work, nothing saved.",
    caption="What gradient accumulation does for each of the three costs.",
)

# %% [markdown]
# ## Why a large batch?
#
# We train a small DistilBERT to tell which e-mails to a support desk are urgent.
# Here is one of them.

# %%
tickets = data.load("tickets")
row = tickets.train[2]
print(row["subject"], "|", textwrap.fill(row["body"], 80))
print("label:", tickets.label_names[row["label"]])

# %% [markdown]
# One epoch of training, with the loop that this course builds in lesson 2.
# It leaves us with a model that has learnt something and is not done.

# %%
device = runtime.device()
model = models.classifier().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
history = training.train(
    model,
    data.loader(tickets, 32, shuffle=True),
    optimizer=optimizer,
    scheduler=torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=64),
    validation=data.loader(tickets, 64, split="validation"),
)
history

# %% [markdown]
# Each update follows the gradient of one batch.
# That gradient is an **estimate**: other rows would have given another one.
# To see how much it varies, take the gradient of each of 512 rows on its own.


# %%
def row_gradient(batch):
    """The gradient of the loss of one row, as one long vector."""
    model.zero_grad()
    model(**batch.to(device)).loss.backward()
    return parameters_to_vector([p.grad for p in model.parameters()]).cpu()


rows = torch.stack([row_gradient(b) for b in data.loader(tickets, 1, rows=512)])
full = rows.mean(0)
print(tuple(rows.shape), "rows and weights")

# %% [markdown]
# The gradient of a batch is the mean of its rows' gradients.
# So we can draw as many batches of any size as we like, at no further cost.


# %%
def batch_gradients(size, draws=300):
    """Gradients of `draws` random batches: (draws, weights)."""
    generator = torch.Generator().manual_seed(size)
    chosen = torch.randint(len(rows), (draws, size), generator=generator)
    # The mean of the chosen rows, batch by batch, without a copy of them.
    return torch.nn.functional.embedding_bag(chosen, rows, mode="mean")


# %% [markdown]
# ### Exercise 1.1: how far off?
#
# Measure the **spread**: the squared distance between a batch's gradient and the full
# one, averaged over the batches.
# `gradients` has one row for each batch, `full` is one such row.


# %% tags=["exercise-1.1"]
def spread(gradients, full):
    """Mean squared distance of gradients (draws, weights) to full (weights,)."""
    ### BEGIN SOLUTION
    return ((gradients - full) ** 2).sum(1).mean()
    ### END SOLUTION


# %%
spread = ex.spread(spread)

# %%
sizes = [1, 2, 4, 8, 16, 32, 64, 128]
spreads = [float(spread(batch_gradients(size), full)) for size in sizes]
plots.gradient_spread(
    sizes,
    spreads,
    alt="Spread of the batch gradient against batch size, both on logarithmic axes. "
    "The measured points from batch 1 to 128 lie close to the falling line 1/B.",
    caption="The spread of the gradient falls as one over the batch size.",
)

# %% [markdown]
# The points follow the line: the spread falls as **1/B**.
#
# ### Question 1.2
#
# The typical distance is the square root of the spread.
# How many times larger must the batch be to **halve** the distance?

# %% tags=["exercise-1.2"]
### BEGIN SOLUTION
# stub: factor = ...  # a number
factor = 4
### END SOLUTION

# %%
factor = ex.factor(factor)

# %% tags=["nbval-check-output"]
halved = (spreads[0] / spreads[2]) ** 0.5  # from 1 row to 4
print(f"distance at 1 row over distance at 4 rows: {halved:.0f}")

# %% [markdown]
# ## What a large batch does not give
#
# Large batches give steadier gradients. Do they also learn faster?
# Three runs start alike; each has a learning rate that suits its batch.
# We look at the loss on validation rows as they go.


# %%
def step(model, optimizer, batch):
    """One update on one batch."""
    model(**batch.to(device)).loss.backward()
    optimizer.step()
    optimizer.zero_grad()


# %%
def run(batch_size, learning_rate, updates):
    """Train, and look at the validation loss eight times: [(updates, loss), ...]."""
    model = models.classifier(seed=1).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    validation = list(data.loader(tickets, 64, split="validation", rows=192))
    batches = itertools.cycle(data.loader(tickets, batch_size, shuffle=True))
    points = []
    for update in range(1, updates + 1):
        step(model, optimizer, next(batches))
        if update % min(32, updates // 8) == 0:
            points.append((update, training.evaluate(model, validation)["loss"]))
    return points


# %%
runs = {8: run(8, 1e-3, 256), 32: run(32, 3e-3, 64), 128: run(128, 5e-3, 32)}

# %% [markdown]
# First against the number of **updates**.

# %%
at_32 = {b: dict(points)[32] for b, points in runs.items()}
plots.curves(
    {
        f"batch {b}": list(zip(*((n, loss) for n, loss in p if n <= 32), strict=True))
        for b, p in runs.items()
    },
    xlabel="updates",
    ylabel="validation loss",
    alt="Validation loss against updates. At 32 updates the loss is "
    + ", ".join(f"{loss:.2f} with batch {b}" for b, loss in at_32.items())
    + ".",
    caption="An update on a large batch is worth more than one on a small batch.",
)

# %% [markdown]
# Update for update, the large batch leads. But its updates cost more.
# Now against the number of **rows** that went through the model.

# %%
by_row = {
    f"batch {b}": ([n * b for n, _ in points], [loss for _, loss in points])
    for b, points in runs.items()
}
at_2048 = {name: dict(zip(*xy, strict=True))[2048] for name, xy in by_row.items()}
plots.curves(
    by_row,
    xlabel="rows seen",
    ylabel="validation loss",
    alt="Validation loss against rows seen. After 2048 rows the loss is "
    + ", ".join(f"{loss:.2f} with {name}" for name, loss in at_2048.items())
    + ".",
    caption="Row for row, the small batches have had more updates and are ahead.",
)

# %% tags=["nbval-check-output"]
print("largest batch best at equal updates:", min(at_32, key=at_32.get) == 128)
print(
    "largest batch worst at equal rows:", at_2048["batch 128"] == max(at_2048.values())
)

# %% [markdown]
# So a large batch gives a **steadier direction**, and each update is worth more.
# It does not give more for each row.
# There are good reasons to want one all the same: a published recipe that names its
# batch size, a loss that jumps about, many GPUs to keep busy.
# Then memory is what stands in the way.
#
# ## What fills the memory
#
# `memory.Meter` counts the bytes of every tensor that is alive, and sorts them:
#
# - **parameters**, the weights
# - **gradients**, one number for each weight
# - **optimizer state**; AdamW keeps two numbers for each weight
# - **activations**, what the forward pass stores for the backward pass
#
# We take a wider model now, so that each kind can be seen.


# %%
def wide_model():
    """The same classifier, four times as wide and two layers deep, with AdamW."""
    config = copy.deepcopy(model.config)
    config.dim, config.hidden_dim, config.n_layers = 256, 512, 2
    wide = type(model)(config).to(device)
    return wide, torch.optim.AdamW(wide.parameters())


# %%
def measured(batch_size):
    """The meter after one whole step, the optimizer state being there already."""
    wide, optimizer = wide_model()
    batch = next(iter(data.loader(tickets, batch_size)))
    step(wide, optimizer, batch)  # the first step makes the optimizer state
    with memory.Meter(wide, optimizer) as meter:
        step(wide, optimizer, batch)
    return meter


# %%
meters = {16: measured(16)}
meters[16]

# %% [markdown]
# ### Exercise 1.3: the floor
#
# Parameters, gradients and optimizer state do not depend on the batch.
# Together they are the **floor** of training.
# How many bytes is it with AdamW, for a number of weights stored in `bytes_each` bytes?


# %% tags=["exercise-1.3"]
def floor_bytes(weights, bytes_each=4):
    """Bytes of parameters, gradients and AdamW's state."""
    ### BEGIN SOLUTION
    parameters = gradients = weights
    optimizer_state = 2 * weights
    return (parameters + gradients + optimizer_state) * bytes_each
    ### END SOLUTION


# %%
floor_bytes = ex.floor_bytes(floor_bytes)

# %% [markdown]
# Check it against the meter: the state and the weights can be read off.

# %%
weights = sum(p.numel() for p in wide_model()[0].parameters())
kept = [meters[16].at_peak[kind] for kind in ("parameters", "optimizer state")]
print(f"floor by formula:            {floor_bytes(weights) / memory.MiB:.1f} MiB")
print(f"weights and state, measured: {sum(kept) / memory.MiB:.1f} MiB")

# %% [markdown]
# The difference is the gradients.
# At the peak they are not there yet: it comes when the activations are complete and the
# backward pass has hardly begun.
#
# ### Prediction 1.4
#
# How many MiB will the peak be with 64 rows? The table above has all you need.

# %% tags=["exercise-1.4"]
### BEGIN SOLUTION
# stub: peak_at_64 = ...  # MiB
at_16 = meters[16].at_peak
peak_at_64 = (meters[16].peak + 3 * at_16["activations"]) / memory.MiB
### END SOLUTION

# %%
meters |= {size: measured(size) for size in (8, 32, 64)}
peak_at_64 = ex.peak_at_64(peak_at_64, meters[64].peak / memory.MiB)

# %%
meters = {size: meters[size] for size in (64, 32, 16, 8)}
plots.memory_bars(
    {size: meter.at_peak for size, meter in meters.items()},
    alt="Stacked bars of peak memory: "
    + ", ".join(f"{m.peak / memory.MiB:.0f} MiB at {b} rows" for b, m in meters.items())
    + ". Activations shrink with the batch, the other kinds stay.",
    caption="Peak memory of one step by batch size, and what it is made of.",
)

# %% [markdown]
# Twice the rows, twice the activations. Everything else stays.
#
# ## Into the limit
#
# A device has only so much memory.
# What happens then looks like this:

# %%
plots.fails_and_completes(
    alt="A large batch rises above the line of the memory limit and fails. Smaller "
    "batches stay below the line and complete.",
    caption="A large batch does not fit; smaller ones do.",
)

# %% [markdown]
# `memory.limit` makes your device smaller, so that it happens here and now.
# On a GPU it is the allocator's own cap, on a CPU the meter refuses.
# The error is the one that PyTorch raises.

# %%
budget = (meters[64].peak + meters[32].peak) // 2
print(f"budget {budget / memory.MiB:.0f} MiB")


def try_batch(batch_size):
    """One step under the budget, on a new model."""
    wide, optimizer = wide_model()
    with memory.limit(budget, wide, optimizer):
        step(wide, optimizer, next(iter(data.loader(tickets, batch_size))))


# %%
try:
    try_batch(64)
except torch.OutOfMemoryError as error:
    print(error)

# %% [markdown]
# The same step with fewer rows completes.

# %%
try_batch(32)
print("32 rows: done")

# %% [markdown]
# ### Exercise 1.5: the largest batch that fits
#
# Try the sizes in turn, the largest first.
# Return the first size whose step completes.
# Only running out of memory is a reason to go on: any other error is a real one, and
# must not be swallowed.


# %% tags=["exercise-1.5"]
def largest_that_fits(step, sizes):
    """The first of `sizes` for which step(size) does not run out of memory."""
    ### BEGIN SOLUTION
    for size in sizes:
        try:
            step(size)
            return size
        except torch.OutOfMemoryError:
            print(f"{size} rows do not fit")
    ### END SOLUTION


# %%
largest_that_fits = ex.largest_that_fits(largest_that_fits)

# %% tags=["nbval-check-output"]
fits = largest_that_fits(try_batch, [64, 32, 16, 8])
print("fits:", fits)

# %%
plots.memory_bars(
    {size: meter.at_peak for size, meter in meters.items()},
    limit=budget,
    outcomes={size: "completes" if size <= fits else "fails" for size in meters},
    alt=f"The bars of peak memory with a limit of {budget / memory.MiB:.0f} MiB. The "
    f"bar of 64 rows is above it and fails, those of {fits} rows and fewer complete.",
    caption="The same bars under a budget: what fits, and what does not.",
)

# %% [markdown]
# The smaller batch completes, and its gradient is noisier.
# That is the choice that this course does away with: the **memory of the small batch
# and the gradient of the large one**.
#
# ### Question 1.6
#
# What does gradient accumulation buy?
#
# - **a** time: training ends sooner
# - **b** memory: the update of a batch that does not fit
# - **c** knowledge: more learnt from each row

# %% tags=["exercise-1.6"]
### BEGIN SOLUTION
# stub: what_it_buys = ...  # "a", "b" or "c"
what_it_buys = "b"
### END SOLUTION

# %%
what_it_buys = ex.what_it_buys(what_it_buys)

# %% [markdown]
# ## What you measured

# %%
share = meters[64].at_peak["activations"] / meters[64].peak
print(f"spread, 1 row over 128 rows:      {spreads[0] / spreads[-1]:.0f} times")
print(f"loss at 32 updates, batch 8, 128: {at_32[8]:.2f}, {at_32[128]:.2f}")
small, _, large = at_2048.values()
print(f"loss at 2048 rows, the same:      {small:.2f}, {large:.2f}")
print(f"activations at 64 rows:           {share:.0%} of the peak")
print(f"largest batch under the budget:   {fits} rows")

# %% [markdown]
# - The gradient of a batch is an estimate. Its spread falls as one over the batch size.
# - A large batch makes each update better. It does not make each row worth more.
# - Activations grow with the batch; weights, gradients and optimizer state do not.
# - Over the limit PyTorch raises `torch.OutOfMemoryError`. A smaller batch completes.
#
# Your marks so far:

# %%
exercises.progress()

# %% [markdown]
# **Next:** in [lesson 2](02_by_hand.ipynb) you write the loop that gives the large
# batch's update in the small batch's memory.
#
# ### Sources
#
# - [McCandlish et al. 2018, on the noise of the gradient and the batch
#   size](https://arxiv.org/abs/1812.06162)
# - [Hugging Face on the anatomy of a model's
#   memory](https://huggingface.co/docs/transformers/model_memory_anatomy)
