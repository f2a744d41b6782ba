# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 7 · Below the floor
#
# {{buttons}}
#
# **You will be able to**
#
# - foretell the memory of a training before you spend it
# - say what accumulation cannot lower, and by how much a budget is missed
# - go lower: checkpointing, half precision, a leaner optimizer, LoRA
# - choose which to reach for first, by figures
#
# About 60 minutes. <!-- definition --> You need nothing from the other notebooks.

# %% tags=["setup"]

# %%
import copy
import time
from functools import partial
from itertools import pairwise

import psutil
import torch
from torch.optim import SGD, Adafactor, AdamW
from torch.utils.checkpoint import checkpoint

from helpers import data, equivalence, exercises, memory, models, plots, runtime
from helpers import training
from helpers.checks import lesson_07 as ex
from helpers.memory.presets import PRESETS
from helpers.memory.units import MiB, GiB

# %% [markdown]
# ## What accumulation leaves
#
# Rows that go through the model together are a **micro-batch**.
# A **window** is the micro-batches between two updates, k of them if it is full.
# All the rows of a window are the **effective batch**.
# Accumulation keeps the effective batch and makes the micro-batch small.
# How far down does the memory go?
#
# We take a small DistilBERT of three layers, and e-mails to a support desk.

# %%
device = runtime.device()
config = copy.deepcopy(models.classifier().config)
config.dim, config.hidden_dim, config.n_layers = 256, 512, 3
torch.manual_seed(0)
small = type(models.classifier())(config).to(device)
weights = sum(p.numel() for p in small.parameters())
print(f"{weights:,} weights, {weights * 4 / MiB:.1f} MiB in float32")


def adamw(parameters):
    """AdamW that updates one weight after the other, on a GPU as on a CPU."""
    return AdamW(parameters, foreach=False)


# %% [markdown]
# Everything below makes micro-batches from the same rows, all equally long.


# %%
rows = next(iter(data.loader(data.load("tickets"), 64)))


def make_batch(size):
    """The first `size` of the rows, as a micro-batch; after 64 from the start again."""
    chosen = torch.arange(size) % 64
    return {name: tensor[chosen] for name, tensor in rows.items()}


print({name: tuple(tensor.shape) for name, tensor in make_batch(16).items()})

# %% [markdown]
# `memory.forecast` runs a window on **fake tensors**: they have a shape, and no memory
# behind it. So it can say what a training will take, for any micro-batch.

# %%
plain = memory.forecast(small, make_batch, adamw)
print(f"64 rows at once: {plain.peak(64) / MiB:.0f} MiB foretold")
print(f"16 rows, four in a window: {plain.peak(16, 4) / MiB:.0f} MiB")

# %% [markdown]
# ### Is the forecast true?
#
# `memory.Meter` counts the bytes of a real training.
# One window and its update, on the real model:


# %%
def prepare(model=small, optimizer=adamw, checkpointing=False):
    """A copy of the model, ready to train, and its optimizer."""
    model = copy.deepcopy(model).train()
    if checkpointing:
        memory.enable_checkpointing(model)
    return model, optimizer(model.parameters())


def update(model, optimizer, window, autocast=None):
    """One window and its update, with the course's own loop."""
    training.accumulate(model, window, autocast=autocast)
    training.update(model, optimizer)


# %%
def measured(size, steps, autocast=None, **technique):
    """Peak bytes of a window and its update."""
    model, optimizer = prepare(**technique)
    update(model, optimizer, [make_batch(1)], autocast)  # makes the optimizer state
    window = [make_batch(size) for _ in range(steps)]
    with memory.Meter(model, optimizer) as meter:
        update(model, optimizer, window, autocast)
    return meter.peak


# %%
for size, steps in ((64, 1), (16, 4)):
    foretold, found = plain.peak(size, steps), measured(size, steps)
    print(f"{size:2} rows × {steps}: foretold {foretold:,}, measured {found:,} bytes")

# %% [markdown]
# So we can plan by forecast, and spend no memory on it.
#
# Both count tensors. On a GPU `nvidia-smi` shows more: the CUDA context, and memory
# that the allocator keeps for reuse.
# `plain.calibrated()` runs one small real update there, and adds what the allocator
# took beside the tensors.

# %% [markdown]
# ### Prediction 7.1
#
# Now 64 rows in micro-batches of one.
# How many MiB will the peak be?
# Count what training keeps for each weight, whatever the batch.

# %% tags=["exercise-7.1"]
### BEGIN SOLUTION
# stub: left_at_one = ...  # MiB
left_at_one = 4 * weights * 4 / MiB  # weight, gradient, two numbers of AdamW
### END SOLUTION

# %%
left_at_one = ex.left_at_one(left_at_one, plain.peak(1, 64) / MiB)

# %% [markdown]
# Here is the whole forecast, with what it covers and what not.
# `peak` is that of a single micro-batch, `accumulated` that of a window of two.
# The **floor** is the peak that is left however few the rows.

# %%
plain

# %%
sizes = [64, 32, 16, 8, 4, 2, 1]


def said(forecast):
    """The foretold peaks of an effective batch of 64, in words."""
    found = {size: forecast.peak(size, 64 // size) / MiB for size in sizes}
    parts = [f"{peak:.0f} MiB at {size}" for size, peak in found.items()]
    return "foretold peak by rows in a micro-batch: " + ", ".join(parts)


# %%
plots.forecast_bars(
    plain,
    64,
    alt=f"Stacked bars of the {said(plain)}. The bars flatten towards the floor of "
    f"{plain.floor / MiB:.0f} MiB.",
    caption="Effective batch 64: what the micro-batch changes, and what it does not.",
)

# %% [markdown]
# The activations shrink with the micro-batch, and the bars come down to the floor.
# It holds parameters, gradients, optimizer state, and what the update needs on its way.
#
# Each halving saves half as much as the one before, so soon it saves little:

# %%
peaks = {size: plain.peak(size, 64 // size) / MiB for size in sizes}
halvings = [peaks[big] - peaks[low] for big, low in pairwise(sizes)]
print("each halving saves, in MiB:", ", ".join(f"{saved:.1f}" for saved in halvings))

# %% [markdown]
# The first one saves less than that, since a window of several holds something more.
#
# ### Gradients that wait
#
# While the second micro-batch goes through, the gradients of the first one wait.
# They now stand beside the activations.
# A window of several therefore takes **more** than one micro-batch of the same size:

# %%
for steps in (1, 4):
    kinds = plain.at_peak(16, steps)
    total, waiting = sum(kinds.values()) / MiB, kinds["gradients"] / MiB
    print(f"16 rows × {steps}: peak {total:.2f} MiB, gradients {waiting:.2f} of them")
print(f"one gradient for each weight: {weights * 4 / MiB:.2f} MiB")

# %% [markdown]
# At the peak of the single micro-batch, backward has made few gradients yet.
# In the window of four, all of them are there.

# %% [markdown]
# ### Exercise 7.2: the floor of an optimizer
#
# SGD remembers nothing, momentum one number for each weight, AdamW two.
# How many bytes are parameters, gradients and optimizer state together?


# %% tags=["exercise-7.2"]
def floor_bytes(weights, optimizer):
    """Bytes in float32, for "sgd", "sgd-momentum" or "adamw"."""
    ### BEGIN SOLUTION
    state = {"sgd": 0, "sgd-momentum": 1, "adamw": 2}[optimizer]
    return (2 + state) * weights * 4  # the weight and its gradient are always there
    ### END SOLUTION


# %%
floor_bytes = ex.floor_bytes(floor_bytes)

# %%
by_rule = floor_bytes(weights, "adamw") / MiB
print(f"by rule {by_rule:.1f} MiB, by forecast {plain.floor / MiB:.1f} MiB")

# %% [markdown]
# What the forecast has on top is the update's own: AdamW works out the new values of a
# weight in copies of it.
#
# ## A billion parameters, on this machine
#
# Fake tensors take no memory, so the model may be larger than the machine.
# This one has the shape of [Llama 3.2
# 1B](https://huggingface.co/meta-llama/Llama-3.2-1B), with rows of 512 tokens.

# %%
llama = PRESETS["llama-1b"]
before = psutil.Process().memory_info().rss / GiB
billion = memory.forecast(llama.make_model, llama.make_batch(512), adamw)
after = psutil.Process().memory_info().rss / GiB
print(f"{billion.weights:,} weights, floor {billion.floor / GiB:.1f} GiB")
print(f"this process held {before:.2f} GiB before, and {after:.2f} after")

# %% [markdown]
# `memory.plan` looks for the largest micro-batch that fits in a budget.
# Here there is none, and it says why:

# %%
try:
    memory.plan(billion, 8 * GiB, effective_batch=16)
except ValueError as error:
    print(str(error).replace(". ", ".\n").replace("; ", ";\n  "))

# %% [markdown]
# The peak is in the update, when the activations are gone already.
# So here shorter texts would not help either.
# No micro-batch is small enough. That is what the rest of this lesson is about.
#
# ### Exercise 7.3: the planner
#
# Where something fits, a plan is a short search.
# `peak(micro_batch, accumulation_steps)` gives bytes.
# Find the largest micro-batch that fits, and keep the effective batch: the last
# micro-batch of the window may be shorter.
# Mind the gradients that wait in a window of several.


# %% tags=["exercise-7.3"]
def largest_plan(peak, budget, effective_batch):
    """(micro-batch, accumulation steps), the largest that fits, or None."""
    ### BEGIN SOLUTION
    for micro_batch in range(effective_batch, 0, -1):
        steps = -(-effective_batch // micro_batch)  # rounded up
        if peak(micro_batch, steps) <= budget:
            return micro_batch, steps
    return None
    ### END SOLUTION


# %%
largest_plan = ex.largest_plan(largest_plan)

# %%
budget = int(0.6 * plain.peak(64))
print("yours:", largest_plan(plain.peak, budget, 64))
print("memory.plan:", memory.plan(plain, budget, effective_batch=64))

# %% [markdown]
# `memory.plan` may find a few rows more than your search.
# The first micro-batch of a window has no gradients beside it yet, so it may be larger
# than a shorter last one; the plan asks for the peak of exactly that window.

# %% [markdown]
# ## Gradient checkpointing
#
# The forward pass keeps activations for the backward pass.
# **Gradient checkpointing** keeps the inputs of each layer and no more.
# The backward pass then computes each layer's forward again, one layer at a time.
#
# ### Exercise 7.4: checkpoint a stack of layers
#
# PyTorch has it as a function: `checkpoint(layer, x, use_reentrant=False)` gives the
# same as `layer(x)`, and keeps nothing from inside the layer.
# Send `x` through all the layers, each in a checkpoint of its own.


# %% tags=["exercise-7.4"]
def through(layers, x):
    """The output of the layers, one after the other, each with checkpointing."""
    ### BEGIN SOLUTION
    for layer in layers:
        x = checkpoint(layer, x, use_reentrant=False)
    return x
    ### END SOLUTION


# %%
through = ex.through(through)

# %% [markdown]
# Models from transformers have it built in: `activation_checkpointing_enable()`, and
# in older versions `gradient_checkpointing_enable()`.
# `memory.enable_checkpointing` calls the one that is there, and the forecast knows it.
#
# We collect the techniques in one place: for each the model, the optimizer and the
# settings that differ from ours.

# %%
techniques = {"as it is": {}, "checkpointing": {"checkpointing": True}}
forecasts = {"as it is": plain}
checked = {}  # bytes between forecast and measurement
cases = ((4, 1), (2, 2))  # rows × steps, to measure


def foretell(model=small, optimizer=adamw, **settings):
    return memory.forecast(model, make_batch, optimizer, **settings)


# %%
def check(name):
    """Forecast a technique, and hold it against measurements; once each."""
    if name not in forecasts:
        forecasts[name] = foretell(**techniques[name])
    if name not in checked:
        found = [measured(*case, **techniques[name]) for case in cases]
        peaks = [forecasts[name].peak(*case) for case in cases]
        checked[name] = max(abs(a - b) for a, b in zip(found, peaks, strict=True))


def show(*names):
    """What each technique takes, and how far its forecast was off."""
    print(f"{'MiB, foretold':20}{'64 × 1':>8}{'8 × 8':>8}{'floor':>8}   off by")
    for name in names:
        check(name)
        found = forecasts[name]
        row = found.peak(64), found.peak(8, 8), found.floor
        print(f"{name:20}" + "".join(f"{size / MiB:8.1f}" for size in row), end="   ")
        print(checked[name], "bytes")


# %% [markdown]
# The last column is a test at two other sizes: one micro-batch of four rows, and two
# of two rows in a window. Both are also measured.

# %%
show("as it is", "checkpointing")

# %% [markdown]
# Fewer activations, and the same floor.
# And it should change nothing in the gradient. Let us see.


# %%
window = [make_batch(4), make_batch(2)]  # ragged, as windows are


def gradient(autocast=None, **technique):
    """The model after one window: its gradients stand in `.grad`."""
    model, _ = prepare(**technique)
    training.accumulate(model, window, autocast=autocast)
    return model


# %%
reference = equivalence.reference(small, window)
as_it_is = equivalence.gradient(gradient())
again = equivalence.gradient(gradient(checkpointing=True))
same = all(torch.equal(as_it_is[name], again[name]) for name in as_it_is)
print("against the float64 reference:", equivalence.compare(again, reference))
print("bit for bit as without checkpointing:", same)

# %% [markdown]
# Dropout is 0 in this model. With dropout, `checkpoint` replays the random state, so
# that the second forward drops the same numbers.
#
# It costs time instead, since the forward pass runs twice.
# We compare the fastest of three updates with the fastest of three as it is, in turns.


# %%
eight = [make_batch(8)]


def slowdown(windows=(eight, eight), autocast=None, **technique):
    """Seconds of an update, as a multiple of those as it is."""
    pair = (*prepare(), windows[0]), (*prepare(**technique), windows[1], autocast)
    seconds = [], []
    for _ in range(3):
        for run, kept in zip(pair, seconds, strict=True):
            start = time.perf_counter()
            update(*run)  # ends with numbers on the CPU, so a GPU is done as well
            kept.append(time.perf_counter() - start)
    return min(seconds[1]) / min(seconds[0])


# %%
slower = {"checkpointing": slowdown(**techniques["checkpointing"])}
print(f"checkpointing: {slower['checkpointing']:.2f} times the seconds")

# %% [markdown]
# Backward takes about two forwards' time, so one forward more is about a third more.
# <!-- definition -->
# What the figure has beyond that is overhead of the checkpoints, and noise.
#
# ## Half precision
#
# With **autocast**, matrix products run in bfloat16, a format of half the bytes.
# Weights, gradients and optimizer state stay in float32.
# What does that save?

# %%
techniques["bf16"] = {"autocast": torch.bfloat16}
show("as it is", "bf16")

# %%
half = forecasts["bf16"]
for size, steps in ((64, 1), (1, 64)):
    kinds = plain.at_peak(size, steps), half.at_peak(size, steps)
    print(f"{size} rows × {steps}, float32 and bf16, MiB")
    for kind in memory.KINDS:
        print(f"  {kind:16}" + "".join(f"{at[kind] / MiB:8.2f}" for at in kinds))

# %% [markdown]
# Two things happen.
# Activations shrink, though not to half: normalisation stays in float32, and what
# comes out of it is kept beside its copy for the next product.
# And each weight of a matrix product gets a **bfloat16 copy**, which lives until its
# backward is done. On a small model, or with a small micro-batch, the copies may cost
# more than the activations save.

# %%
floors = plain.floor / MiB, half.floor / MiB
print(f"floor: {floors[0]:.1f} MiB in float32, {floors[1]:.1f} MiB with bf16")
least = next(size for size in range(1, 65) if half.peak(size, 2) < plain.peak(size, 2))
print(f"in a window of two, bf16 saves memory from {least} rows on")

# %% [markdown]
# And the gradient?

# %%
rounded = gradient(autocast=torch.bfloat16)
bf16_error = equivalence.compare(rounded, reference).relative_error
few = [make_batch(2)]  # it may be slow
slower["bf16"] = slowdown((few, few), **techniques["bf16"])
print(f"relative error {bf16_error:.1e}")
print("gradients in", rounded.classifier.bias.grad.dtype)
print(f"{slower['bf16']:.1f} times the seconds on this", device.type.upper())

# %% [markdown]
# Half precision rounds: the gradient is near, not equal.
# In return it is fast where the hardware has units for bfloat16, as newer GPUs have.
# A CPU without such units is slow at it.
#
# ### Question 7.5
#
# You train with bf16 autocast, and the floor is still too high. Why did it not fall?
#
# - **a** autocast is for the forward pass; what the floor is made of stays in float32
# - **b** bfloat16 has the range of float32, so it takes as many bytes
# - **c** the gradients are bfloat16, but AdamW keeps two of them

# %% tags=["exercise-7.5"]
### BEGIN SOLUTION
# stub: why_the_floor_stays = ...  # "a", "b" or "c"
why_the_floor_stays = "a"
### END SOLUTION

# %%
why_the_floor_stays = ex.why_the_floor_stays(why_the_floor_stays)

# %% [markdown]
# ## A leaner optimizer
#
# The state of the optimizer is the largest part of AdamW's floor.
# **SGD** has none, with momentum it has one number for each weight.
# **Adafactor** keeps sums over rows and columns of each matrix, in place of a number
# for each weight.


# %%
def momentum(parameters):
    return SGD(parameters, lr=0.01, momentum=0.9)


for name, optimizer in (
    ("SGD", SGD),
    ("SGD, momentum", momentum),
    ("Adafactor", Adafactor),
):
    techniques[name] = {"optimizer": optimizer}
show("as it is", "SGD", "SGD, momentum", "Adafactor")

# %% [markdown]
# Here the floor itself falls, and the activations are as before.
# The gradient is not touched, so accumulation stays exact.
# The **update** is another one, however: learning rate and schedule must be found anew.
#
# Even the way AdamW is written counts.
# Ours, with `foreach=False`, works weight by weight. With `foreach=True` it takes all
# at once and needs temporaries for all; `fused=True` needs hardly any.
# By default it is weight by weight on a CPU, and [`foreach` on a
# GPU](https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html).

# %%
ways = {"foreach": {"foreach": True}, "fused": {"fused": True}, "default": {}}
written = {"weight by weight": plain}
for name, way in ways.items():
    written[name] = foretell(optimizer=partial(AdamW, **way))
for name, found in written.items():
    on_top = found.floor - floor_bytes(weights, "adamw")
    print(f"{name:18}{on_top / MiB:5.1f} MiB on top of the three kinds")

# %% [markdown]
# The floor of the billion weights above is that of AdamW weight by weight, too.

# %% [markdown]
# ### Freeing gradients at once
#
# A gradient is needed until its weight is updated.
# Update it as soon as it is complete, within backward, and it can go:


# %%
def in_backward(parameters):
    """AdamW that updates each weight as soon as its gradient is there, and frees it."""
    optimizer = adamw(parameters)

    def update(_):
        optimizer.step()  # weights without a gradient are passed over
        optimizer.zero_grad()

    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.register_post_accumulate_grad_hook(update)
    return optimizer


# %%
techniques["in backward"] = {"optimizer": in_backward}
show("as it is", "in backward")

# %% [markdown]
# The copy of all gradients is gone from the floor. But look at what it does in a
# window: we count the updates of a weight.


# %%
def updates_in_window(optimizer):
    """How often a window of two micro-batches updates the last bias."""
    model, optimizer = prepare(optimizer=optimizer)
    update(model, optimizer, window)
    return int(optimizer.state[model.classifier.bias]["step"])


# %%
for name, make in (("AdamW", adamw), ("in backward", in_backward)):
    print(f"{name:12} {updates_in_window(make)} updates in one window")

# %% [markdown]
# One for each micro-batch: nothing is accumulated.
# To add gradients up they must stay, and to free them they must go.
# Clipping by the norm of all gradients is lost as well.
# So this is for training **without** accumulation, where one micro-batch is enough.
#
# ## LoRA
#
# **LoRA** freezes the weights and trains a detour of low rank beside them.
# A frozen weight has no gradient and no optimizer state.
# Mechanically it is a layer:


# %%
class LoRA(torch.nn.Module):
    """A frozen linear layer, and a trained detour through a few numbers."""

    def __init__(self, linear, rank=8):
        super().__init__()
        like = {"bias": False, "device": linear.weight.device}
        self.linear = linear
        self.down = torch.nn.Linear(linear.in_features, rank, **like)
        self.up = torch.nn.Linear(rank, linear.out_features, **like)
        torch.nn.init.zeros_(self.up.weight)  # at first it changes nothing

    def forward(self, x):
        return self.linear(x) + self.up(self.down(x))


# %%
def with_lora(model, names):
    """Freeze a model, but for detours around the layers whose names end so."""
    model.requires_grad_(False)
    for name, layer in list(model.named_modules()):
        if name.endswith(names):
            model.set_submodule(name, LoRA(layer))
    return model


# %%
adapted = with_lora(copy.deepcopy(small), ("q_lin", "v_lin"))
for layer in models.HEAD:  # the head is new, and is trained whole
    adapted.get_submodule(layer.rstrip(".")).requires_grad_(True)
trained = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
frozen = sum(p.numel() for p in adapted.parameters()) - trained
print(f"{trained:,} weights trained, {frozen:,} frozen")

# %% [markdown]
# ### Prediction 7.6
#
# What is the floor with LoRA and AdamW, in MiB?
# A frozen weight takes its own bytes and no more.

# %% tags=["exercise-7.6"]
### BEGIN SOLUTION
# stub: lora_floor = ...  # MiB
lora_floor = (frozen + 4 * trained) * 4 / MiB
### END SOLUTION

# %%
techniques["LoRA"] = {"model": adapted}
show("as it is", "LoRA")
lora_floor = ex.lora_floor(lora_floor, forecasts["LoRA"].floor / MiB)

# %% [markdown]
# The floor is little more than the parameters. And some activations go too:

# %%
for name in ("as it is", "LoRA"):
    at = forecasts[name].at_peak(64)
    print(f"{name:9}{at['activations'] / MiB:6.0f} MiB of activations, 64 × 1")

# %% [markdown]
# A frozen layer need not keep its input for a weight gradient.
# Most activations stay, since backward passes through every layer.
#
# Accumulation is as exact as before, for the weights that are trained:

# %%
lora_reference = equivalence.reference(adapted, window)
lora = equivalence.compare(gradient(model=adapted), lora_reference)
print(lora)

# %% [markdown]
# It is another training, though: most weights never move.
# For real work take the library [PEFT](https://huggingface.co/docs/peft), which also
# scales the detour and stores it by itself.
#
# ## Which to reach for first
#
# All of them in one table. First, two of them combined:

# %%
techniques["LoRA, checkpointing"] = {"model": adapted, "checkpointing": True}
show("LoRA, checkpointing")

# %%
for name in techniques:
    if name not in slower and name != "as it is":
        slower[name] = slowdown(**techniques[name])
gradients = {name: "the same, other update" for name in techniques} | {
    "checkpointing": "the same" if same else "another",
    "bf16": f"{bf16_error:.0e} off",
    "in backward": "not accumulated",
    "LoRA": "of few weights",
    "LoRA, checkpointing": "of few weights",
}

# %% [markdown]
# First accumulation itself, with no technique added:

# %%
pieces = [make_batch(16)], [make_batch(2) for _ in range(8)]
saved = plain.peak(16) - plain.peak(2, 8)
print(f"16 × 1 to 2 × 8: {saved / MiB:.1f} MiB saved")
print(f"16 × 1 to 2 × 8: {slowdown(windows=pieces):.2f} times the seconds")
verdict = equivalence.compare(as_it_is, reference).verdict
print("a window of 4 and 2 rows, against its large batch:", verdict)

# %% [markdown]
# Then what each technique saves at one size: without accumulation, with it, and at the
# floor. The order is that of the second column.

# %%
accumulated = {name: forecasts[name].peak(8, 8) for name in techniques}
order = sorted(techniques, key=accumulated.get, reverse=True)
print(f"{'MiB saved':20}{'64 × 1':>8}{'8 × 8':>8}{'floor':>8}{'time':>8}   gradient")
for name in sorted(slower, key=accumulated.get, reverse=True):
    found = forecasts[name]
    row = f"{(plain.peak(64) - found.peak(64)) / MiB:8.1f}"
    row += f"{(plain.peak(8, 8) - found.peak(8, 8)) / MiB:8.1f}"
    row += f"{(plain.floor - found.floor) / MiB:8.1f}"
    print(f"{name:20}{row}{slower[name]:7.2f}×   {gradients[name]}")

# %% [markdown]
# Read the table by what you lack.
#
# - **Activations** stand in the way: accumulate first, since gradient and training stay
#   what they are. Then checkpointing: the same gradient, for more time.
# - **The floor** stands in the way: the optimizer, or LoRA. Both are another training.
# - Both do: LoRA and checkpointing go together.
# - On a GPU with bfloat16 units, try bf16 early: it saves activations and time. Its
#   gradient is rounded.

# %%
drawn = [name for name in order if name != "in backward"]  # it does not accumulate
bars = {}
for name in drawn:  # each label in short lines, or it runs into the next one
    label = name.replace(", ", ",\n").replace("checkpointing", "check-\npointing")
    bars[label] = forecasts[name].at_peak(8, 8)
plots.memory_bars(
    bars,
    xlabel="micro-batches of 8 rows, eight in a window",
    alt="Stacked bars of the foretold peak in a window of 8 times 8 rows: "
    + ", ".join(f"{name} {accumulated[name] / MiB:.0f} MiB" for name in drawn)
    + ".",
    caption="What each technique takes away, with accumulation.",
)

# %% [markdown]
# ### Question 7.7
#
# A colleague trains with AdamW, float32, micro-batches of one row, and still runs out
# of memory, in the update.
# The results must stay comparable: the same optimizer, all weights trained.
# What helps?
#
# - **a** gradient checkpointing
# - **b** more accumulation steps
# - **c** bf16 autocast
# - **d** none of these three

# %% tags=["exercise-7.7"]
### BEGIN SOLUTION
# stub: what_helps = ...  # "a", "b", "c" or "d"
what_helps = "d"
### END SOLUTION

# %%
what_helps = ex.what_helps(what_helps)

# %% [markdown]
# ### Try it yourself
#
# A slider for the micro-batch and switches for the rest redraw the bars.
# Where no widgets are to be had, it is one figure.

# %%
low = int(0.7 * floor_bytes(weights, "adamw"))
plots.memory_explorer(
    small,
    make_batch,
    effective_batch=64,
    budget=low,
    alt=f"Stacked bars of the {said(written['default'])}. Each is higher than the line "
    f"of the budget, {low / MiB:.0f} MiB.",
    caption="A budget below the floor of AdamW.",
)

# %% [markdown]
# ### Plan below the floor
#
# The budget in the figure is too small for AdamW with any micro-batch.
#
# ### Question 7.8
#
# The budget is 0.7 times what AdamW keeps for all weights. <!-- definition -->
# One of these fits, with some micro-batch. Which?
#
# - **a** checkpointing
# - **b** SGD with momentum
# - **c** Adafactor
# - **d** bf16 autocast

# %% tags=["exercise-7.8"]
### BEGIN SOLUTION
# stub: what_fits = ...  # "a", "b", "c" or "d"
what_fits = "c"
### END SOLUTION

# %%
what_fits = ex.what_fits(what_fits)

# %% [markdown]
# Now the plans, of every technique that accumulates:

# %%
plans = {}
for name in drawn:
    try:
        plans[name] = memory.plan(forecasts[name], low, effective_batch=64)
        print(f"{name:20} {plans[name].micro_batch} × {plans[name].accumulation_steps}")
    except ValueError:
        print(f"{name:20} does not fit")

# %% [markdown]
# Last, the proof: the planned window in a real training, with the budget enforced.
# Where there is no plan, we try micro-batches of one row.


# %%
def fits(name):
    """Whether the planned window and its update run within the budget."""
    model, optimizer = prepare(**techniques[name])
    parts = plans[name].batches(range(64)) if name in plans else [[0]] * 64
    window = [make_batch(len(part)) for part in parts]
    try:
        with memory.limit(low, model, optimizer):
            update(model, optimizer, [make_batch(1)])
            update(model, optimizer, window)
    except torch.OutOfMemoryError:
        return "out of memory"
    return f"{len(window)} micro-batches of {len(window[0]['labels'])} done"


# %%
for name in ("as it is", "LoRA, checkpointing"):
    print(f"{name:20} {low / MiB:.0f} MiB: {fits(name)}")

# %% [markdown]
# ### What else there is
#
# This lesson does not measure these; each is a place to read on.
#
# - float16 autocast needs a [gradient
#   scaler](https://docs.pytorch.org/docs/stable/amp.html): small gradients would be
#   rounded to zero. `training.train` makes one.
# - Weights themselves in bfloat16, `model.to(torch.bfloat16)`, halve the floor. Small
#   updates are then rounded away.
# - [8-bit optimizers](https://huggingface.co/docs/bitsandbytes/optimizers) keep AdamW's
#   state in a byte for each number.
# - [Offload](https://www.deepspeed.ai/tutorials/zero-offload/) keeps the optimizer
#   state in the memory of the CPU.
# - [Sharding](https://docs.pytorch.org/docs/stable/fsdp.html) spreads weights,
#   gradients and state over several devices.

# %% [markdown]
# ## What you measured

# %%
print(f"peak, 64 rows to 1:          {peaks[64] - peaks[1]:.0f} MiB less")
print(f"floor of AdamW:              {plain.floor / MiB:.0f} MiB")
for name in ("checkpointing", "bf16", "SGD", "LoRA"):
    found = forecasts[name]
    sizes = f"64 × 1: {found.peak(64) / MiB:4.0f} MiB, floor {found.floor / MiB:3.0f}"
    print(f"{name:28} {sizes} MiB, {slower[name]:.2f}× the time")
print(f"a billion weights, AdamW:    {billion.floor / GiB:.1f} GiB, none of it spent")
print(f"worst of {len(checked)} forecasts:        {max(checked.values())} bytes off")

# %% [markdown]
# - Accumulation shrinks activations. Gradients wait beside them.
# - A forecast on fake tensors gives the peak before any of it is spent.
# - Checkpointing trades time for activations and leaves the gradient as it is.
# - bf16 autocast halves part of the activations; the floor stays in float32.
# - A leaner optimizer and LoRA lower the floor. Each of them is another training.
# - Freeing gradients within backward and accumulating exclude each other.
#
# Your marks so far:

# %%
exercises.progress()

# %% [markdown]
# **Next:** the capstone gives you a model, a memory budget and an effective batch, and
# you plan, train, audit and report.
#
# ### Sources
#
# - [Chen et al. 2016, training deep nets with sublinear
#   memory](https://arxiv.org/abs/1604.06174): gradient checkpointing
# - [Micikevicius et al. 2018, mixed precision
#   training](https://arxiv.org/abs/1710.03740)
# - [Shazeer and Stern 2018, Adafactor](https://arxiv.org/abs/1804.04235)
# - [Hu et al. 2021, LoRA](https://arxiv.org/abs/2106.09685)
# - [PyTorch on checkpointing](https://docs.pytorch.org/docs/stable/checkpoint.html) and
#   on [autocast](https://docs.pytorch.org/docs/stable/amp.html)
# - [PyTorch on the optimizer step within
#   backward](https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html)
