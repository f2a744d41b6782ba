# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 5 · Unequal micro-batches
#
# {{buttons}}
#
# **You will be able to**
#
# - say why the mean of the micro-batches' means is not the mean, and for which tokens
# - count the targets of a language model, the shifted label included
# - write the exact recipe by hand and in Accelerate, and audit it in the Trainer
# - handle micro-batches with no target, and texts sorted by length
#
# About 50 minutes. <!-- definition --> You need nothing from the other notebooks.

# %% tags=["setup"]

# %%
import copy
import statistics
import tempfile
import time

import torch
from accelerate import Accelerator
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback
from transformers import Trainer, TrainingArguments
from transformers import __version__ as version

from helpers import data, equivalence, exercises, memory, models, plots, runtime
from helpers import texts, training
from helpers.checks import lesson_05 as ex

# %% [markdown]
# ## Two micro-batches on paper
#
# Rows that go through the model together are a **micro-batch**.
# A **window** is the micro-batches between two updates, k of them if it is full.
# A label that counts in the loss is a **target**.
#
# Gradient accumulation should give the mean loss over all targets of the window.
# The usual loop takes the mean of each micro-batch, and then the mean of those means.
#
# ### Exercise 5.1: eight targets
#
# Here is a window of two micro-batches.
#
# | micro-batch | targets | mean loss |
# |---|---|---|
# | first | 2 | 3 |
# | second | 6 | 1 |
#
# What is the mean loss over all of its targets?

# %% tags=["exercise-5.1"]
### BEGIN SOLUTION
# stub: on_paper = ...  # your number
on_paper = (2 * 3 + 6 * 1) / (2 + 6)
### END SOLUTION

# %%
on_paper = ex.on_paper(on_paper)

# %%
print("mean of the two means:  ", (3 + 1) / 2)
print("mean over all targets:  ", on_paper)

# %% [markdown]
# Stuck? `ex.on_paper.hint()` in a new cell helps, more than once, and
# `ex.on_paper.solution()` shows one way. Every exercise has both.
#
# The mean of means is sure to be the mean only where all micro-batches have equally
# many targets.
# A classifier with one label a row rarely breaks that.
# Texts break it in every window.
#
# ## A language model
#
# Our texts are e-mails to a support desk.
# Our model is a small Llama.
# It reads a text from left to right, and at each place predicts the next token.
# So the labels are the tokens themselves.

# %%
tickets = texts.of(data.load("tickets"))
batch = next(iter(data.loader(tickets, 4, rows=4)))
for name, tensor in batch.items():
    print(f"{name:15} {tuple(tensor.shape)}  {tensor[0, :6].tolist()} ...")

# %% [markdown]
# The texts are not equally long, so the shorter ones are padded.
# The labels of the padding are -100, which the loss ignores. <!-- definition -->

# %%
lengths = [len(row) for row in tickets.tokenized()["input_ids"]]
print(f"tokens a text: {min(lengths)} to {max(lengths)},", end=" ")
print(f"mean {statistics.mean(lengths):.0f}")
print("labels in each of these rows:", (batch["labels"] != -100).sum(1).tolist())

# %% [markdown]
# ### Exercise 5.2: count the targets
#
# The first token of a row has nothing before it, so the model cannot predict it.
# A causal language model therefore **shifts**: it compares what it predicts at each
# place with the label at the next one.
# The first label of each row is left over, and is no target.
#
# Count the targets of a micro-batch, and leave the micro-batch as it is.


# %% tags=["exercise-5.2"]
def targets(batch):
    """Labels that count in the mean loss; `labels` is (rows, length), -100 ignored."""
    ### BEGIN SOLUTION
    return int((batch["labels"][:, 1:] != -100).sum())
    ### END SOLUTION


# %%
targets = ex.targets(targets)

# %% [markdown]
# We ask the model itself.
# Add up the losses of all targets, and divide by its mean loss: that is how many there
# were.

# %%
device = runtime.device()
model, batch = models.language_model().to(device), batch.to(device)
output = model(**batch)
logits, labels = output.logits[:, :-1].transpose(1, 2), batch["labels"][:, 1:]
model_count = cross_entropy(logits, labels, reduction="sum") / output.loss

# %% tags=["nbval-check-output"]
print(f"the model's own count:      {model_count.item():.0f}")
print(f"your targets:               {targets(batch)}")
print(f"all labels that are shown:  {training.count_targets(batch)}")

# %% [markdown]
# The last line is what `helpers.training` counts unless it is told otherwise.
# It is right for a classifier, and here it is one a row too many.
# So we hand our own function over: `count_targets=targets`.
#
# ## How far off, on real texts
#
# Most windows of a training meet a model that has learned something already.
# So we train ours on large batches first, with nothing accumulated, and measure then.

# %%
trained = models.language_model().to(device)
optimizer = torch.optim.AdamW(trained.parameters(), lr=3e-3)
large = data.loader(tickets, 32, rows=512)
training.train(
    trained, large, optimizer=optimizer, count_targets=targets, progress=False
)

# %% [markdown]
# The **reference** is one backward pass over all rows of the window, in float64, with
# dropout off.
# It is the same however the window is cut.
# We take four windows of 32 texts that the model has not seen.

# %%
unseen = range(512, 512 + 4 * 32)
double = copy.deepcopy(trained).double()
references = [
    equivalence.reference(double, large)
    for large in data.loader(tickets, 32, rows=unseen)
]
references

# %% [markdown]
# Against it we hold the mean of means, in micro-batches from sixteen rows down to one:
#
# - **relative error**: the difference, divided by the length of the reference
# - **cosine**: 1 where both point the same way


# %%
def mean_of_means(model, window):
    """What the usual loop leaves in `.grad`."""
    for batch in window:
        loss = model(**batch.to(device)).loss
        (loss / len(window)).backward()


# %%
def errors_of(method, loader, accumulation_steps, references=references):
    """Each window of a loader, by this method, held against its reference."""
    model, found = copy.deepcopy(double), []
    windows = training.windows(loader, accumulation_steps)
    for window, reference in zip(windows, references, strict=True):
        model.zero_grad()
        method(model, window)
        found.append(equivalence.compare(model, reference))
    return found


# %%
by_rows = {}
for rows in (16, 8, 4, 2, 1):
    loader = data.loader(tickets, rows, rows=unseen)
    found = errors_of(mean_of_means, loader, 32 // rows)
    by_rows[rows] = statistics.mean(c.relative_error for c in found)
    cosine = statistics.mean(c.cosine for c in found)
    print(f"{rows:2} a time: relative error {by_rows[rows]:.3f}   cosine {cosine:.4f}")

# %%
plots.curves(
    {"mean of means": (list(by_rows), list(by_rows.values()))},
    xlabel="rows in a micro-batch (every window has 32)",
    ylabel="relative error",
    doubling=True,
    alt="Relative error of the mean of means against the rows of a micro-batch. It "
    f"rises from {by_rows[16]:.2f} at sixteen rows to {by_rows[1]:.2f} at one row.",
    caption="Relative error of a window of 32 texts, by how finely it is cut.",
)

# %% [markdown]
# The finer you cut, the more it is off.
# A micro-batch of many texts has short and long ones in it, which evens out.
# And you cut finely where memory is scarce, which is what accumulation is for.
#
# ### Exercise 5.3: who counts too much?
#
# Over all N targets of the window each should have the weight 1/N.
# In the mean of k means it gets another one, which depends on its micro-batch.
# How many times its right weight does a target get?


# %% tags=["exercise-5.3"]
def weights(counts):
    """From the targets of a window's micro-batches: weight over right weight, each."""
    ### BEGIN SOLUTION
    return [sum(counts) / (len(counts) * count) for count in counts]
    ### END SOLUTION


# %%
weights = ex.weights(weights)

# %%
clouds = {}
for rows, name in ((8, "8 rows"), (2, "2 rows"), (1, "1 row")):
    loader = data.loader(tickets, rows, rows=unseen)
    counts, times = [], []
    for window in training.windows(loader, 32 // rows):
        in_window = [targets(batch) for batch in window]
        counts += in_window
        times += [float(weight) for weight in weights(in_window)]
    clouds[name] = counts, times

# %%
most = {name: max(times) for name, (_, times) in clouds.items()}
least = {name: min(times) for name, (_, times) in clouds.items()}
plots.token_weights(
    clouds,
    alt="Weight of a target against the targets of its micro-batch, falling as one "
    "over their number. "
    + " ".join(f"{n}: from {least[n]:.2f} to {most[n]:.2f}." for n in clouds),
    caption="How much a target counts in the mean of means; 1 is right.",
)

# %%
for name in clouds:
    print(f"{name:7} a target counts {least[name]:.2f} to {most[name]:.2f} times")

# %% [markdown]
# By the formula, in every window the targets of micro-batches with few targets count
# too much.
# So it does not average out.
#
# ## What it does to training
#
# Does it show? We train twice on the same texts, in the same order.
# The shared loop is exact if it gets the right count.
# Told that each micro-batch has one target, it takes the mean of means.


# %%
def one_each(batch):
    return 1


def run(count, loader):
    """Two epochs from the same start: the model, and the history of its updates."""
    model = models.language_model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    options = {"optimizer": optimizer, "accumulation_steps": 4, "epochs": 2}
    options |= {"count_targets": count, "progress": False}
    return model, training.train(model, loader, **options)


# %% [markdown]
# And twice again, with the texts in another order: that is our yardstick for chance.


# %%
def shuffled(seed):
    return data.loader(tickets, 8, rows=1024, shuffle=True, seed=seed)


runs = {}
for seed in (1, 2):
    runs[f"exact, order {seed}"] = run(targets, shuffled(seed))
    runs[f"mean of means, order {seed}"] = run(one_each, shuffled(seed))

# %%
losses = {
    name: [update.loss for update in history.updates]
    for name, (_, history) in list(runs.items())[:3]
}
logged, ends = losses["exact, order 1"], [ys[-1] for ys in losses.values()]
plots.curves(
    {name: (list(range(1, len(y) + 1)), y) for name, y in losses.items()},
    xlabel="update",
    ylabel="training loss, as logged",
    alt="Training loss of three runs over their updates: exact, mean of means, and "
    "exact in another order. They fall from "
    f"{logged[0]:.1f} to {ends[0]:.2f}, {ends[1]:.2f} and {ends[2]:.2f}.",
    caption="Three runs, micro-batches of 8 texts, k = 4: the fault cannot be seen.",
)

# %% [markdown]
# The curves do not show it.
# Look at the loss on the validation texts, and at how far the weights are apart.
# The distance is divided by how far training moved the first model from its start.


# %%
def flat(model):
    return parameters_to_vector(model.parameters()).detach().cpu()


def apart(one, other):
    """Distance of two models' weights, over that from the start to the first."""
    start = flat(models.language_model())
    return ((flat(other) - flat(one)).norm() / (flat(one) - start).norm()).item()


# %%
def validation_loss(model, rows=None):
    loader = data.loader(tickets, 64, split="validation", rows=rows)
    return training.evaluate(model, loader, count_targets=targets)["loss"]


for name, (model, _) in runs.items():
    print(f"{name:22} validation loss {validation_loss(model):.4f}")

# %%
trained_as = {name: model for name, (model, _) in runs.items()}
pairs = {
    f"fault, order {seed}": (
        trained_as[f"exact, order {seed}"],
        trained_as[f"mean of means, order {seed}"],
    )
    for seed in (1, 2)
}
pairs["order alone"] = trained_as["exact, order 1"], trained_as["exact, order 2"]
for name, pair in pairs.items():
    print(f"{name:14} weights {apart(*pair):.2f} of the way apart")

# %% [markdown]
# Another order of the texts moves the weights further than the fault does.
# The fault is a little worse in both orders, but two orders are too few to tell it from
# chance.
# With eight texts a micro-batch and random order, the mean loss hardly suffers.
#
# But chance pushes in any direction, and the fault has one of its own.
# We cut the validation texts into four equal parts by length, and look at each.

# %%
validation = tickets.tokenized("validation")["input_ids"]
by_length = sorted(range(len(validation)), key=lambda row: len(validation[row]))
size = len(by_length) // 4
quarters = [by_length[i * size : (i + 1) * size] for i in range(4)]
middle = [statistics.mean(len(validation[row]) for row in part) for part in quarters]


# %%
def more_loss(model, than):
    """How much more loss a model has on each quarter, the shortest texts first."""
    return [validation_loss(model, q) - validation_loss(than, q) for q in quarters]


leaning = {
    name: (middle, more_loss(other, than=one)) for name, (one, other) in pairs.items()
}


# %%
def show_leaning(caption):
    each = [
        f"{name}: " + ", ".join(f"{y:+.3f}" for y in ys) + "."
        for name, (_, ys) in leaning.items()
    ]
    plots.curves(
        leaning,
        xlabel="mean length of the texts (tokens)",
        ylabel="loss, minus that of the exact run",
        alt="Difference of losses on four quarters of the validation texts, the "
        f"shortest texts first. {' '.join(each)}",
        caption=caption,
    )


show_leaning("Who gains and who loses, by the length of the text.")

# %%
for name, (_, ys) in leaning.items():
    print(f"{name:14}", *(f"{y:+.3f}" for y in ys), end="")
    print(f"   from shortest to longest {ys[-1] - ys[0]:+.3f}")

# %% [markdown]
# Each line has the four quarters, the shortest texts first.
# The last column is the one to read.
# Where it is positive, short texts gain on long ones.
# The fault leans that way in both orders, as its weights ask for.
# But it is small here: another order moves a single quarter more.
# We come back to it with sorted texts, where it is not small.
#
# ## The exact recipe
#
# Each target should count once, as in one large batch.
# That is a choice: to let each text count once would be another.
# So each micro-batch adds the **sum** of its losses, divided by all the window's
# targets.
#
# That number is known only when the whole window has been seen.
# One way around is to add up the sums of losses, and to call backward once, at the end:


# %%
def one_backward(model, window):
    """Exact: sum of all losses over all targets, and a single backward."""
    total, number = 0.0, 0
    for batch in window:
        count = targets(batch)
        total = total + model(**batch.to(device)).loss * count
        number += count
    (total / number).backward()


# %%
eights = data.loader(tickets, 8, rows=unseen)
found = errors_of(one_backward, eights, 4)
print(f"relative error: {max(c.relative_error for c in found):.0e}")
print("the weights are", double.dtype, "and the loss", double(**batch).loss.dtype)

# %% [markdown]
# The gradient is right to rounding.
# The model takes its loss in single precision, whatever the weights are.
# So the rounding that you see is at most that of single precision.
#
# So is all well?
# The meter counts the bytes of the **activations**: what the forward pass keeps for the
# backward pass.

# %%
window = list(eights)[:8]


def activations(method, batches):
    """MiB of activations when most bytes were alive."""
    model = copy.deepcopy(trained)
    with memory.Meter(model) as meter:
        method(model, batches)
    return meter.at_peak["activations"] / 2**20


alone = activations(one_backward, window[:1])
print(f"one micro-batch of 8 texts: {alone:.2f} MiB")

# %% [markdown]
# ### Prediction 5.4
#
# How many MiB of activations will `one_backward` hold for eight such micro-batches?

# %% tags=["exercise-5.4"]
### BEGIN SOLUTION
# stub: summed_memory = ...  # your number, in MiB
summed_memory = 8 * alone
### END SOLUTION

# %%
summed = {k: activations(one_backward, window[:k]) for k in (1, 2, 4, 8)}
summed_memory = ex.summed_memory(summed_memory, summed[8])

# %%
large = next(iter(data.loader(tickets, 64, rows=unseen)))
at_once = activations(one_backward, [large])
print(f"one large batch of the same 64 texts: {at_once:.1f} MiB")

# %% [markdown]
# The large batch is padded to its longest text, and takes little more.
# That one did not fit, and so the point of accumulating is lost.
#
# ### Exercise 5.5: count first, then backward
#
# The targets can be counted without the model: the labels are enough.
# So count the whole window first.
# Then each micro-batch can have its own backward at once, and its activations go.
#
# Leave the gradient of the window's mean loss in `.grad`.
# Keep no more than one micro-batch in memory at a time.


# %% tags=["exercise-5.5"]
def exact_window(model, window):
    """Add the gradient of the mean loss over all targets of a list of micro-batches."""
    ### BEGIN SOLUTION
    counts = [targets(batch) for batch in window]
    for batch, count in zip(window, counts, strict=True):
        loss = model(**batch.to(device)).loss
        (loss * count / sum(counts)).backward()
    ### END SOLUTION


# %%
exact_window = ex.exact_window(exact_window)

# %%
held = {k: activations(exact_window, window[:k]) for k in summed}

# %%
plots.curves(
    {
        "one backward": (list(summed), list(summed.values())),
        "count first": (list(held), list(held.values())),
    },
    xlabel="micro-batches in the window",
    ylabel="activations at the peak (MiB)",
    alt="Activations at the peak against the micro-batches in a window. One backward "
    f"at the end: {summed[1]:.1f} to {summed[8]:.1f} MiB. Counting first: "
    f"{held[1]:.1f} to {held[8]:.1f} MiB.",
    caption="What each recipe holds at once, by the length of the window.",
)

# %% [markdown]
# Same gradient, and the memory of one micro-batch.
# Here it is for one text a micro-batch, the finest cut:

# %%
singles = data.loader(tickets, 1, rows=unseen)
for name, method in (("mean of means", mean_of_means), ("count first", exact_window)):
    worst = max(c.relative_error for c in errors_of(method, singles, 32))
    print(f"{name:14} relative error of the worst window {worst:.0e}")

# %% [markdown]
# `training.train` does what you wrote: it counts, and then it goes backward.
#
# ## In Accelerate
#
# First the loop of its documentation, with `accumulate`.
# `equivalence.watch` looks at `.grad` at each step of the optimizer.
# We take 21 texts, two a micro-batch, so the end is short.
# The last window has three micro-batches, and the last of those a single text.
# <!-- definition -->


# %%
def with_accumulate(accelerator, model, loader, optimizer):
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            optimizer.zero_grad()


# %%
def watched(loop, loader, accumulation_steps=4):
    """One epoch of a loop with Accelerate, each update held against its reference."""
    k, on_cpu = accumulation_steps, device.type == "cpu"
    accelerator = Accelerator(cpu=on_cpu, gradient_accumulation_steps=k)
    accelerator.sync_gradients = True  # a loop before may have left it at False
    model = copy.deepcopy(trained).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    windows = list(training.windows(loader, k))
    with equivalence.watch(model, optimizer, windows) as updates:
        loop(accelerator, *accelerator.prepare(model, loader, optimizer))
    return updates


# %%
twos = data.loader(tickets, 2, rows=range(512, 512 + 21))
accumulated = watched(with_accumulate, twos)
accumulated

# %% [markdown]
# - **ratio**: how long the gradient is along the reference; 1 is right
# - **residual**: what is off in direction, divided by the reference's length
#
# The mean of means again, and the short last window is divided by k all the same.
#
# ### Exercise 5.6: what to hand over
#
# The exact recipe needs the window's targets before the first backward, so it reads
# whole windows and does without `accumulate`.
# On several processes the window lies on all of them: `gather` collects their counts.
#
# Two more divide after you.
# `accelerator.backward` divides by the accumulation steps.
# And several processes take the mean of their gradients.
# Return what to hand to `accelerator.backward`.


# %% tags=["exercise-5.6"]
def share(accelerator, loss, count, window_count):
    """From a mean loss over `count` targets, of `window_count` on all processes."""
    ### BEGIN SOLUTION
    divided_later = accelerator.gradient_accumulation_steps * accelerator.num_processes
    return loss * count / window_count * divided_later
    ### END SOLUTION


# %%
share = ex.share(share)


# %%
def counted_first(accelerator, model, loader, optimizer):
    for window in training.windows(loader, accelerator.gradient_accumulation_steps):
        counts = [targets(batch) for batch in window]
        own = torch.as_tensor(sum(counts), device=accelerator.device)
        window_count = accelerator.gather(own).sum()
        for batch, count in zip(window, counts, strict=True):
            loss = model(**batch).loss
            accelerator.backward(share(accelerator, loss, count, window_count))
        optimizer.step()
        optimizer.zero_grad()


# %%
counted = watched(counted_first, twos)
counted

# %% [markdown]
# Exact, the short window included.
# On this machine it ran on one process; lesson 6 takes several.
#
# ## In the Trainer
#
# The Trainer reads whole windows too, counts their targets, and hands the number to the
# model as `num_items_in_batch`.
# `equivalence.audit` lets a copy of it go through some windows, and compares.

# %%
folder = tempfile.TemporaryDirectory()  # goes away with the notebook
rows = tickets.tokenized().select(range(512, 512 + 21))


def new_trainer(model, collator=tickets.collator):
    """A Trainer with micro-batches of two texts, four to a window."""
    args = TrainingArguments(
        output_dir=folder.name,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=4,
        use_cpu=device.type == "cpu",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(model, args, train_dataset=rows, data_collator=collator)
    trainer.remove_callback(PrinterCallback)
    return trainer


# %%
stock = equivalence.audit(new_trainer(copy.deepcopy(trained)))
stock

# %%
print(f"transformers {version}: {stock.verdict}")
print(stock.cause or "There is nothing to repair for this model.")

# %% [markdown]
# The residual is rounding, so no mean of means is taken.
# If your ratios are below 1, your version counts the first label of each row as well
# ([repaired in 2026](https://github.com/huggingface/transformers/pull/46204)).
# A remedy for that comes below.
#
# Do not carry a remedy over without a measurement.
# Lesson 4 repairs the Trainer of a classifier with `accepts_loss_kwargs = False`.
# Here it switches the count off:

# %%
model = copy.deepcopy(trained)
model.accepts_loss_kwargs = False
no_count = equivalence.audit(new_trainer(model))
no_count

# %% [markdown]
# ### The model decides who counts
#
# The Trainer has to know whether the loss is shifted.
# A newer one looks at the model's `loss_type`, which comes from the name of its class.
# Here is a GPT-2 as small as ours:

# %%
sizes = {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 128}
special = {"bos_token_id": 2, "eos_token_id": 3}
gpt2 = GPT2LMHeadModel(
    GPT2Config(vocab_size=len(tickets.tokenizer), **sizes, **special)
)
print("loss_type:", trained.loss_type, "and", gpt2.loss_type)

# %%
gpt2_stock = equivalence.audit(new_trainer(gpt2))
gpt2_stock

# %% [markdown]
# `GPT2LMHeadModel` has no `loss_type`, so its shift goes unseen.
# Where the ratio is below 1, the first label of each row was counted.
# The shorter the texts, the more that is.
#
# ### Exercise 5.7: let all of them count alike
#
# There is a remedy that lies in the data.
# It works for every model that shifts its labels, in every version that counts them.
# The loss never looks at the first label of a row.
# Make it one that nobody counts.


# %% tags=["exercise-5.7"]
def first_ignored(batch):
    """The micro-batch, with the first label of each row ignored."""
    ### BEGIN SOLUTION
    batch["labels"][:, 0] = -100
    return batch
    ### END SOLUTION


# %%
first_ignored = ex.first_ignored(first_ignored)


# %%
def collate(rows):
    return first_ignored(tickets.collator(rows))


repaired = {
    name: equivalence.audit(new_trainer(copy.deepcopy(model), collate))
    for name, model in (("Llama", trained), ("GPT-2", gpt2))
}

# %% tags=["nbval-check-output"]
for name, found in repaired.items():
    print(f"{name:6} {found.verdict}")

# %% [markdown]
# `training.count_targets` counts all labels but -100, and so do many others.
# With such labels they are right as well:

# %%
batch = collate([tickets.tokenized()[row] for row in range(4)])
print(f"your targets:             {targets(batch)}")
print(f"training.count_targets:   {training.count_targets(batch)}")

# %% [markdown]
# If several texts are packed into one row, each of them has such a first label.
#
# ### Over several processes
#
# On several processes each one holds a part of the window, and their gradients are
# averaged.
# If each divides by its own targets, that is a mean of means once more.
# The Trainer has an argument for it:

# %%
args = new_trainer(copy.deepcopy(trained)).args
print("average_tokens_across_devices:", args.average_tokens_across_devices)

# %% [markdown]
# We play two processes here, each with every other micro-batch of a window.
# On several processes PyTorch's `DistributedDataParallel` (DDP) averages, so the right
# part is multiplied by their number first.


# %%
def two_processes(model, window, over_all):
    """The average of two processes' gradients."""
    processes, every = 2, sum(targets(batch) for batch in window)
    for mine in (window[::2], window[1::2]):
        own = sum(targets(batch) for batch in mine)
        for batch in mine:
            total = model(**batch.to(device)).loss * targets(batch)
            part = total * processes / every if over_all else total / own
            (part / processes).backward()  # DDP takes the average


# %%
across = {}
for over_all in (True, False):
    found = errors_of(lambda m, w, o=over_all: two_processes(m, w, o), singles, 32)
    across[over_all] = statistics.mean(c.relative_error for c in found)
    print(f"{over_all!s:5} relative error {across[over_all]:.1e}")

# %% [markdown]
# Leave it at True.
# This was arithmetic on one process; lesson 6 runs two.
#
# ## Micro-batches with no target
#
# Often only a part of a text is to be learned: the answer and not the question.
# If a long question fills the row, its answer is cut off, and every label is -100.
# <!-- definition -->
# With small micro-batches such a row may be alone.

# %%
empty = next(iter(data.loader(tickets, 2, rows=2)))
empty["labels"] = torch.full_like(empty["labels"], -100)
print("targets:", targets(empty))

# %% [markdown]
# Its mean loss is zero divided by zero.
# Here is what four ways to write the loss make of it.
# The first two are the model's own: its mean, and its sum divided by a count.
# The 100 stands for any count. <!-- definition -->


# %%
def losses_of(model, batch):
    """Four ways to the loss of a micro-batch, in a window with 100 targets."""
    logits, labels = model(**batch).logits[:, :-1], batch["labels"][:, 1:]
    kept = labels != -100
    each = logits.log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    by_hand = (-each * kept).sum()
    return {
        "model, mean": model(**batch).loss,
        "model, sum / window": model(**batch, num_items_in_batch=100).loss,
        "by hand, mean": by_hand / kept.sum(),
        "by hand, sum / window": by_hand / 100,
    }


# %%
model = copy.deepcopy(trained)
for name, loss in losses_of(model, empty.to(device)).items():
    model.zero_grad()
    loss.backward(retain_graph=True)
    norm = sum(p.grad.square().sum() for p in model.parameters()).sqrt()
    print(f"{name:22} loss {loss.item():4.1f}   gradient {norm.item():.1f}")

# %% [markdown]
# A mean over nothing is NaN in the log.
# PyTorch's own loss keeps it out of the gradient.
# Written by hand, it is NaN there as well, and one update spreads it through every
# layer.
# A sum divided by the window's targets is zero, as it should be.

# %%
losses_of(model, empty)["by hand, mean"].backward()
torch.optim.AdamW(model.parameters()).step()
broken = [bool(tensor.isnan().any()) for tensor in model.parameters()]
print(f"after one update: NaN in {sum(broken)} of the {len(broken)} weight tensors")

# %% [markdown]
# ### Prediction 5.8
#
# So people skip micro-batches whose loss is NaN.
# Take a window of four copies of one micro-batch, and mask the last one.
# The loop skips it, and divides by k as always.


# %%
def skipping(model, window):
    for batch in window:
        if targets(batch):
            (model(**batch.to(device)).loss / len(window)).backward()


one = next(iter(twos))
window = [one, one, one, copy.deepcopy(one)]
window[-1]["labels"] = torch.full_like(one["labels"], -100)

# %% [markdown]
# Which ratio will its gradient have?

# %% tags=["exercise-5.8"]
### BEGIN SOLUTION
# stub: skipped_ratio = ...  # your number
skipped_ratio = 3 / 4
### END SOLUTION

# %%
reference = equivalence.reference(double, window)
skipped = errors_of(skipping, window, 4, [reference])[0]
skipped_ratio = ex.skipped_ratio(skipped_ratio, skipped.ratio)
skipped

# %% [markdown]
# The shared loop skips it too, as there is nothing to learn.
# But it divides by the targets, so nothing is missing.
# `exact_window` does not skip it, and its gradient is right as well:


# %%
def shared(model, window):
    training.accumulate(model, window, count_targets=targets)


# %% tags=["nbval-check-output"]
for name, method in (("shared loop", shared), ("exact_window", exact_window)):
    print(f"{name:12} exact:", errors_of(method, window, 4, [reference])[0].exact)

# %% [markdown]
# But if you log the loss, NaN times zero targets is NaN.
# So skip a micro-batch where `count == 0`.
#
# A window with no target at all has no gradient, and the loop says so:

# %%
try:
    shared(model, window[-1:])
except ValueError as error:
    print("ValueError:", error)

# %% [markdown]
# ## Sorting by length
#
# Padding is wasted work.
# If texts of like length go together, there is less of it.
# The picture shows the first texts as they come, and the same ones sorted.


# %%
def cut(order, rows=8):
    """Lengths of the texts of each micro-batch."""
    return [[lengths[i] for i in order[s : s + rows]] for s in range(0, 32, rows)]


def padded(batches):
    """The share of the positions that is padding."""
    every = sum(len(batch) * max(batch) for batch in batches)
    return 1 - sum(map(sum, batches)) / every


first = list(range(32))
panels = {
    "as they come": cut(first),
    "sorted": cut(sorted(first, key=lengths.__getitem__)),
}
padding = {name: padded(batches) for name, batches in panels.items()}

# %%
plots.padding(
    panels,
    alt="Two panels of thirty-two bars in four micro-batches: the tokens of each text "
    "and its padding. "
    + " ".join(f"{n}: {share:.0%} is padding." for n, share in padding.items()),
    caption="The same 32 texts in micro-batches of 8, and the padding of each.",
)

# %% [markdown]
# ### Question 5.9
#
# Micro-batches of eight texts, windows of four.
# Which order makes the mean of means most wrong?
#
# - **a** the texts as they come
# - **b** all texts sorted by length
# - **c** sorted by length, cut into micro-batches, and those shuffled

# %% tags=["exercise-5.9"]
### BEGIN SOLUTION
# stub: most_at_fault = ...  # "a", "b" or "c"
most_at_fault = "c"
### END SOLUTION

# %%
most_at_fault = ex.most_at_fault(most_at_fault)


# %%
def in_order(rows):
    return sorted(rows, key=lengths.__getitem__)


def buckets(rows, seed=0, size=8):
    """Sorted by length, cut into micro-batches, and those shuffled."""
    ordered = in_order(rows)
    cut = [ordered[i : i + size] for i in range(0, len(ordered), size)]
    shuffle = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(cut), generator=shuffle).tolist()
    return [row for place in order for row in cut[place]]


# %%
everything = range(len(lengths))
orders = {
    "as they come": list(everything),
    "sorted": in_order(everything),
    "sorted, micro-batches shuffled": buckets(everything),
}

# %% [markdown]
# Of each order we look at four windows, from its beginning to its end.
# We take the mean of means, and your `exact_window` for comparison.

# %%
by_order, counted_in = {}, {}
for name, order in orders.items():
    rows = [order[32 * i + j] for i in (5, 20, 35, 50) for j in range(32)]
    loader = data.loader(tickets, 8, rows=rows)
    own = [equivalence.reference(double, w) for w in training.windows(loader, 4)]
    found = errors_of(mean_of_means, loader, 4, own)
    by_order[name] = statistics.mean(c.relative_error for c in found)
    found = errors_of(exact_window, loader, 4, own)
    counted_in[name] = max(c.relative_error for c in found)

# %%
plots.error_bars(
    by_order,
    rounding=1e-6,
    start=1e-7,
    alt="Relative error of the mean of means by the order of the texts: "
    + ", ".join(f"{name} {error:.2g}" for name, error in by_order.items())
    + ".",
    caption="Mean of means, micro-batches of 8 texts, k = 4, by the texts' order.",
)

# %%
for name, error in counted_in.items():
    print(f"{name:30} count first: relative error at most {error:.0e}")

# %% [markdown]
# Sorted all through, the counts in a window are nearly equal.
# But then one update sees short texts only, and another long ones only.
# That is why sorted micro-batches are shuffled, and then the fault is the largest of
# the three.
# Counted first, all three are exact.
# The Trainer sorts as well, with `train_sampling_strategy="group_by_length"`
# (`group_by_length=True` in older versions).
#
# Does it show in training now?

# %%
bucketed = data.loader(tickets, 8, rows=buckets(range(1024)))
exact_buckets, exact_history = run(targets, bucketed)
faulty_buckets, faulty_history = run(one_each, bucketed)

# %%
for name, model in (("exact", exact_buckets), ("mean of means", faulty_buckets)):
    print(f"{name:14} validation loss {validation_loss(model):.4f}")
moved = apart(exact_buckets, faulty_buckets)
print(f"weights {moved:.2f} of the way apart")

# %%
leaning["fault, sorted"] = middle, more_loss(faulty_buckets, exact_buckets)
show_leaning("Who gains and who loses, with sorted micro-batches as well.")

# %%
by_sorting = leaning["fault, sorted"][1]
print(f"from shortest to longest {by_sorting[-1] - by_sorting[0]:+.4f}")

# %% [markdown]
# Now it can be seen: on long texts the model is worse by more than another order
# changes.
# The gain on short texts is no larger than chance.
#
# And the training curves of the two?

# %%
in_both = {"exact": exact_history, "mean of means": faulty_history}
logged = {name: [u.loss for u in h.updates] for name, h in in_both.items()}
ends = [ys[-1] for ys in logged.values()]
plots.curves(
    {name: (list(range(1, len(ys) + 1)), ys) for name, ys in logged.items()},
    xlabel="update",
    ylabel="training loss, as logged",
    alt="Training loss with sorted micro-batches, exact and as a mean of means. Both "
    f"fall from {logged['exact'][0]:.1f}, to {ends[0]:.2f} and {ends[1]:.2f}.",
    caption="The same two runs with sorted micro-batches, as the loop logs them.",
)

# %%
half = len(logged["exact"]) // 2  # the second half, where the loss falls slowly
late = {name: ys[half:] for name, ys in logged.items()}
gap = statistics.mean(abs(a - b) for a, b in zip(*late.values(), strict=True))
steps = statistics.mean(
    abs(a - b) for a, b in zip(late["exact"], late["exact"][1:], strict=False)
)
print(f"between the curves {gap:.3f}, from one update to the next {steps:.3f}")

# %% [markdown]
# The gap is smaller than what one curve moves from update to update.
# And in your own training there is no second curve to hold yours against.
#
# ### And the speed?
#
# Forward and backward over the same texts, in both orders by turns.
# Each turn gives one ratio, and we take the median: if the machine slows down for a
# while, that spoils single turns only.


# %%
def seconds(loader):
    model = copy.deepcopy(trained)
    batches = [batch.to(device) for batch in loader]
    start = time.perf_counter()
    for batch in batches:
        model(**batch).loss.backward()
    float(model.lm_head.weight.grad.sum())  # waits for a GPU
    return time.perf_counter() - start


# %%
mixed = data.loader(tickets, 8, rows=unseen)
tidy = data.loader(tickets, 8, rows=buckets(unseen))
gains = [seconds(mixed) / seconds(tidy) for _ in range(8)][1:]  # the first warms up
cells = [sum(b["input_ids"].numel() for b in loader) for loader in (mixed, tidy)]
print(f"positions computed: {cells[0] / cells[1]:.2f} times as many unsorted")
print(f"time: {statistics.median(gains):.2f} times", end=" ")
print(f"(from {min(gains):.2f} to {max(gains):.2f} in {len(gains)} turns)")

# %% [markdown]
# Sorting saves work, and with targets counted a window's gradient stays exact.
# So sort if you like, and count.
#
# ## What you measured

# %%
ratio = gpt2_stock.ratios[0]
print(f"mean of means, 8 texts each:       relative error {by_rows[8]:.3f}")
print(f"mean of means, 1 text each:        relative error {by_rows[1]:.3f}")
print(f"a target counts up to:             {most['1 row']:.1f} times")
times = summed[8] / held[8]
print(f"one backward, window of 8:         {times:.1f} times the activations")
print(f"Accelerate, accumulate:            relative error "
      f"{accumulated.comparisons[0].relative_error:.3f}")  # fmt: skip
print(f"Accelerate, counted first:         relative error "
      f"{counted.comparisons[0].relative_error:.0e}")  # fmt: skip
print(f"Trainer, Llama and GPT-2:          ratio {stock.ratios[0]:.3f} and {ratio:.3f}")
print(f"skipped, divided by k:             ratio {skipped.ratio:.2f}")
print(f"sorted and shuffled:               relative error "
      f"{by_order['sorted, micro-batches shuffled']:.3f}")  # fmt: skip
print(f"sorted: long against short texts   {by_sorting[-1] - by_sorting[0]:+.3f} loss")
longer = statistics.median(gains)
print(f"unsorted takes:                    {longer:.2f} times as long")

# %% [markdown]
# - The mean of means gives the targets of short micro-batches too much weight.
# - Count the targets of the window, then go backward: exact, in the memory of one
#   micro-batch.
# - The first label of each row is no target. Setting it to -100 lets all count alike.
#   <!-- definition -->
# - The loss curve hardly shows the fault. Look at short and long texts apart, or audit.
# - Sorting by length saves work, and makes the fault larger where there is one.
#
# Your marks so far:

# %%
exercises.progress()

# %% [markdown]
# **Next:** [lesson 6](06_several_processes.ipynb) puts the micro-batches of a window on
# several devices.
#
# ### Sources
#
# - [Hugging Face: the loss normalisation fault of
#   2024](https://huggingface.co/blog/gradient_accumulation)
# - [Unsloth, who found it](https://unsloth.ai/blog/gradient)
# - [Accelerate on samples of variable
#   size](https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation)
# - [The first label in the Trainer's
#   count](https://github.com/huggingface/transformers/pull/46204)
# - [Summing the losses and its memory, in
#   torchtune](https://github.com/meta-pytorch/torchtune/pull/1875)
# - [Fully masked micro-batches, in
#   nanochat](https://github.com/karpathy/nanochat/pull/623)
