# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 4 · Trainer
#
# {{buttons}}
#
# **You will be able to**
#
# - set up a Trainer with accumulation, evaluation, accuracy and F1
# - audit it: is each update the one that the large batch would give?
# - read in its source why not, and repair it in one line
# - choose between PyTorch, Accelerator and Trainer, by figures
#
# About 50 minutes. <!-- definition --> You need nothing from the other notebooks.

# %% tags=["setup"]

# %%
import ast
import contextlib
import copy
import inspect
import io
import math
import tempfile
import textwrap
import time
from itertools import islice

import torch
from accelerate import Accelerator
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Trainer, TrainingArguments
from transformers import __version__ as version

from helpers import data, equivalence, exercises, metrics, models, plots, runtime
from helpers import training
from helpers.checks import lesson_04 as ex

# %% [markdown]
# ## The loop that you do not write
#
# Rows that go through the model together are a **micro-batch**.
# A **window** is the micro-batches between two updates, k of them if it is full.
# All the rows of a window are the **effective batch**.
# A label that counts in the loss is a **target**: here one a row.
#
# Hugging Face's **Trainer** holds the whole loop over them.
# You say what you want, in **TrainingArguments**.

# %%
folder = tempfile.TemporaryDirectory()  # goes away with the notebook
wanted = TrainingArguments(
    output_dir=folder.name,
    eval_strategy="epoch",
    gradient_accumulation_steps=2,
)
rows = wanted.per_device_train_batch_size
print(f"micro-batch {rows}, so effective batch {rows * 2}")

# %% [markdown]
# Three arguments: where to write, when to evaluate, how many micro-batches to add up.
# The rest has defaults.
#
# Older tutorials write `evaluation_strategy`.
# Here is what that name gives now:

# %%
try:
    TrainingArguments(output_dir=folder.name, evaluation_strategy="epoch")
except TypeError as error:
    print("TypeError:", error)

# %% [markdown]
# If you meet this error, write `eval_strategy`.
#
# `eval_accumulation_steps` sounds related and is not.
# It says how often results of an evaluation move to the CPU.
# Training never sees it.
#
# ### Exercise 4.1: accuracy and F1
#
# After each epoch the Trainer hands your `compute_metrics` the logits and the labels.
# **Accuracy** is the share of rows whose class is right.
# **F1** looks at one class alone: it is the harmonic mean of its precision and recall.
# We want the F1 of class 1, the urgent e-mails.

# %%
metric = metrics.accuracy_f1()
print(metric.compute(predictions=[1, 0, 0, 0], references=[1, 1, 0, 0]))


# %% tags=["exercise-4.1"]
def compute_metrics(predicted):
    """Accuracy and F1 of `predictions` (rows, 2), which are logits, and `label_ids`."""
    ### BEGIN SOLUTION
    chosen = predicted.predictions.argmax(axis=-1)
    return metric.compute(predictions=chosen, references=predicted.label_ids)
    ### END SOLUTION


# %%
compute_metrics = ex.compute_metrics(compute_metrics)

# %% [markdown]
# Stuck? `ex.compute_metrics.hint()` in a new cell helps, more than once, and
# `ex.compute_metrics.solution()` shows one way. Every exercise has both.
#
# ### A first training
#
# Our data are e-mails to a support desk, each urgent or not.
# The Trainer wants the tokenised rows, and a **collator** that pads a micro-batch.

# %%
tickets = data.load("tickets")
print(tickets.tokenized())
print(f"urgent: {sum(tickets.validation['label'])} of {len(tickets.validation)}")

# %% [markdown]
# We will make many Trainers, so their common arguments go into a function.
# `report_to=[]` keeps them from looking for a tracking service.
# `disable_tqdm` switches the progress bar off, which would write into red boxes.

# %%
device = runtime.device()


def arguments(**changes):
    """What our Trainers have in common, with changes."""
    common = {
        "output_dir": folder.name,
        "per_device_train_batch_size": 8,
        "per_device_eval_batch_size": 64,
        "gradient_accumulation_steps": 4,
        "learning_rate": 2e-3,
        "save_strategy": "no",
        "use_cpu": device.type == "cpu",
        "data_seed": 0,
        "report_to": [],
        "disable_tqdm": True,
    }
    return TrainingArguments(**common | changes)


# %% [markdown]
# A Trainer keeps its log in `state.log_history`.
# Without the bar, a callback prints each entry as well; we take that one out and read
# the log ourselves.


# %%
def new_trainer(model, rows, *, loss=None, evaluated=None, **changes):
    """A Trainer on some tokenised rows that prints nothing."""
    trainer = Trainer(
        model=model,
        args=arguments(**changes),
        train_dataset=rows,
        eval_dataset=evaluated,
        data_collator=tickets.collator,
        compute_metrics=compute_metrics,
        compute_loss_func=loss,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


# %%
trainer = new_trainer(
    models.classifier(),
    tickets.tokenized("train"),
    evaluated=tickets.tokenized("validation"),
    eval_strategy="epoch",
    logging_strategy="epoch",
    logging_first_step=True,
    num_train_epochs=3,
)

# %% [markdown]
# ### Prediction 4.2
#
# The Trainer counts in **steps**. A step is an update, not a micro-batch.
# How many will it make in three epochs? The last window of an epoch may be short.

# %%
print(f"{len(tickets.train)} rows, micro-batches of 8, four to a window")

# %% tags=["exercise-4.2"]
### BEGIN SOLUTION
# stub: updates_made = ...  # your number
updates_made = math.ceil(math.ceil(2036 / 8) / 4) * 3
### END SOLUTION

# %%
result = trainer.train()
updates_made = ex.updates_made(updates_made, trainer.state.global_step)

# %% [markdown]
# Everything that counts "steps" counts updates: logging, warm-up, `max_steps`.
#
# And this is what the evaluations found, one an epoch:

# %%
log = trainer.state.log_history
evaluations = [entry for entry in log if "eval_loss" in entry]
for entry in evaluations:
    print(f"epoch {entry['epoch']:.0f}", end="")
    for name in ("loss", "accuracy", "f1"):
        print(f"   {name} {entry[f'eval_{name}']:.3f}", end="")
    print()

# %%
epochs = [entry["epoch"] for entry in evaluations]
score_curves = {
    "accuracy": (epochs, [entry["eval_accuracy"] for entry in evaluations]),
    "F1, urgent": (epochs, [entry["eval_f1"] for entry in evaluations]),
}
plots.curves(
    score_curves,
    xlabel="epoch",
    ylabel="on the validation rows",
    alt="Accuracy and F1 on the validation rows after each epoch. Both rise, to "
    f"{evaluations[-1]['eval_accuracy']:.2f} and {evaluations[-1]['eval_f1']:.2f}.",
    caption="What the Trainer evaluated after each epoch.",
)

# %% tags=["nbval-check-output"]
for name, (_, values) in score_curves.items():
    print(f"{name:12} higher at the end: {values[-1] > values[0]}")

# %% [markdown]
# So it learns. Can we leave it at that?
#
# ## Audit it
#
# Learning proves little.
# What we want is the update of the large batch.
# The **reference** is one backward pass over all rows of the window, in float64, with
# dropout off.
# `equivalence.audit` lets a copy of the Trainer go through some windows, and holds each
# of its gradients against the reference:
#
# - **ratio**: how long the gradient is, along the reference
# - **residual**: what still differs when the length is put right
#
# Sixty-four rows make two full windows.

# %%
trained = copy.deepcopy(trainer.model).cpu()
even = tickets.tokenized().select(range(64))
stock = equivalence.audit(new_trainer(copy.deepcopy(trained), even))
stock

# %%
factor = round(stock.ratios[0])
if factor == 1:
    print(f"transformers {version}: the ratio is one, this fault is not in it.")
else:
    print(f"transformers {version}: each gradient is {factor} times too large.")

# %% [markdown]
# If your version says one, it does not have the fault of [issue 47688 of
# transformers](https://github.com/huggingface/transformers/issues/47688).
# Read on all the same: other versions and other models have it, and the audit costs you
# one line.
#
# ### See why
#
# The Trainer decides who divides.
# These are the lines of its `training_step`, in the version that you have:

# %%
step = inspect.getsource(Trainer.training_step).splitlines()
places = range(len(step))
first = next((i for i in places if "Finally" in step[i]), 0)
last = next((i for i in places if "loss / self." in step[i]), places[-1])
print(textwrap.dedent("\n".join(step[first : last + 1])))

# %% [markdown]
# It divides by the accumulation steps only where nobody else is expected to.
# A model that takes extra keywords is expected to: the Trainer hands it
# `num_items_in_batch`, the number of targets in the window.
# Does our model take it, and does it use it?

# %%
forward = type(trained).forward
kinds = [p.kind for p in inspect.signature(forward).parameters.values()]
print("takes extra keywords:     ", inspect.Parameter.VAR_KEYWORD in kinds)
print("so the Trainer hands over:", trainer.model_accepts_loss_kwargs)
print("its loss uses the count:  ", "num_items" in inspect.getsource(forward))

# %% [markdown]
# Where the answers are True, True, False, nobody divides.
# The keyword is swallowed, and the k means of a window are added up.
# A signature promises something, and only a measurement shows whether it is kept.
#
# ### The loss in the log
#
# Where nobody divides, the same sum goes into the log.
# Hold the training loss against the evaluation loss beside it.

# %%
logged = [entry["loss"] for entry in log if "loss" in entry]
print(f"first update:  {logged[0]:.3f}, and untrained it should be {math.log(2):.3f}")
for loss, entry in zip(logged[1:], evaluations, strict=True):
    print(
        f"epoch {entry['epoch']:.0f}: train {loss:.3f}, eval {entry['eval_loss']:.3f}"
    )

# %%
log_factor = logged[0] / math.log(2)
print(f"first logged loss over the true one: {log_factor:.2f}")
print(f"the same in the audit: {stock.windows[0].logged_ratio:.4f}")

# %% [markdown]
# Two classes, nothing learned: each gets a half, and the loss is ln 2.
# That makes the first logged loss a free test of any training.
#
# ### Exercise 4.3: read a log
#
# Here is the log of somebody else's run, with two classes as well.
# How many accumulation steps did it have?

# %%
for entry in ex.somebodys_log():
    print("   ".join(f"{name} {value:.3g}" for name, value in entry.items()))

# %% tags=["exercise-4.3"]
### BEGIN SOLUTION
# stub: hidden_steps = ...  # your number
hidden_steps = 8
### END SOLUTION

# %%
hidden_steps = ex.hidden_steps(hidden_steps)

# %% [markdown]
# ### Question 4.4
#
# What is wrong with that run?
#
# - **a** it overfits
# - **b** the learning rate is too high
# - **c** the losses of a window are added up, and nothing divides them
# - **d** dropout is on in training and off in evaluation

# %% tags=["exercise-4.4"]
### BEGIN SOLUTION
# stub: what_is_wrong = ...  # "a", "b", "c" or "d"
what_is_wrong = "c"
### END SOLUTION

# %%
what_is_wrong = ex.what_is_wrong(what_is_wrong)

# %% [markdown]
# ### What it does to training
#
# To see the effect on every version of the library, we write the fault out.
# A Trainer takes a loss of your own as `compute_loss_func`.
# It then leaves all dividing to it. This one returns the mean of its micro-batch:


# %%
def undivided(outputs, labels, num_items_in_batch=None):
    return cross_entropy(outputs.logits, labels)


same_fault = new_trainer(copy.deepcopy(trained), even, loss=undivided)
print(equivalence.audit(same_fault).verdict)

# %% [markdown]
# We train with it and with a right loss, which you will write below.
# Then we ask how far apart the weights end, divided by the way that training went.


# %%
def a_few_updates(loss, **changes):
    """The weights after 16 updates of a new model, and the gradient norm of each."""
    changes |= {"max_steps": 16, "logging_steps": 1}
    trainer = new_trainer(
        models.classifier(), tickets.tokenized(), loss=loss, **changes
    )
    trainer.train()
    norms = [e["grad_norm"] for e in trainer.state.log_history if "grad_norm" in e]
    return parameters_to_vector(trainer.model.parameters()).detach().cpu(), norms


# %%
start = parameters_to_vector(models.classifier().parameters()).detach()
distances = {}
for optimizer, name in (("sgd", "SGD"), ("adamw_torch", "AdamW")):
    for limit, clipped in ((0, ""), (1.0, ", clipped")):
        options = {"optim": optimizer, "max_grad_norm": limit}
        right, right_norms = a_few_updates(equivalence.summed_cross_entropy, **options)
        wrong, wrong_norms = a_few_updates(undivided, **options)
        away = (wrong - right).norm() / (right - start).norm()
        distances[name + clipped] = away.item()

# %%
plots.error_bars(
    distances,
    rounding=1e-5,
    alt="How far the fault moves the weights, on a logarithmic axis: "
    + ", ".join(f"{name} {value:.2g}" for name, value in distances.items())
    + ".",
    caption="Weights with the fault, against those without, by optimizer.",
)

# %% [markdown]
# SGD takes steps that are k times as long.
# AdamW divides each gradient by its own size, so a constant factor almost vanishes:
# good scores under AdamW prove nothing about the gradient.
# Clipping ends that: it has a fixed limit, and the gradient is now k times too large
# for it. How many of the updates were cut?

# %%
for name, norms in (("with the fault", wrong_norms), ("without", right_norms)):
    cut = sum(norm > 1 for norm in norms)
    print(f"AdamW, clipped, {name:15} {cut:2} of {len(norms)} updates cut")

# %% [markdown]
# ### Question 4.5
#
# Your Trainer has this fault, AdamW, and the default of `max_grad_norm`.
# Is it harmless?
#
# - **a** yes, AdamW does not see a constant factor
# - **b** no, AdamW makes steps that are k times too long
# - **c** no, clipping cuts where the large batch would not be cut

# %% tags=["exercise-4.5"]
### BEGIN SOLUTION
# stub: is_it_harmless = ...  # "a", "b" or "c"
is_it_harmless = "c"
### END SOLUTION

# %%
is_it_harmless = ex.is_it_harmless(is_it_harmless)

# %% [markdown]
# ## Put it right
#
# There are two remedies, and we audit both.
# This time the rows do not divide: the last window is short, and its last micro-batch
# is **ragged**, shorter than the others.

# %%
uneven = tickets.tokenized().select(range(76))
as_it_comes = equivalence.audit(new_trainer(copy.deepcopy(trained), uneven))
as_it_comes

# %% [markdown]
# **The first remedy** tells the Trainer that this model does not divide.
# The Trainer looks only once, so set it before the Trainer is made.

# %%
model = copy.deepcopy(trained)
model.accepts_loss_kwargs = False
by_flag = equivalence.audit(new_trainer(model, uneven))
by_flag

# %% [markdown]
# Full windows are exact now.
# The last one is not: the Trainer takes the mean of the micro-batches' means, and a row
# of the ragged one counts more than the others.
#
# ### Exercise 4.6: a loss that is exact
#
# **The second remedy** is a loss function of your own.
# The Trainer gives it the model's outputs, the labels, and in `num_items_in_batch` the
# targets of the whole window.
# Return this micro-batch's share in the window's mean loss.
# The Trainer keeps the labels from the model, so `outputs.loss` is empty.


# %% tags=["exercise-4.6"]
def exact_loss(outputs, labels, num_items_in_batch=None):
    """Share of a micro-batch in its window's mean loss; a label of -100 is ignored."""
    ### BEGIN SOLUTION
    total = cross_entropy(outputs.logits, labels, reduction="sum")
    return total / num_items_in_batch
    ### END SOLUTION


# %%
exact_loss = ex.exact_loss(exact_loss)

# %%
repaired = new_trainer(copy.deepcopy(trained), uneven, loss=exact_loss)
by_loss = equivalence.audit(repaired)
by_loss

# %% [markdown]
# Every window is the reference, the ragged one too.
# Side by side:

# %%
audits = {
    "as it comes": as_it_comes,
    "accepts_loss_kwargs = False": by_flag,
    "compute_loss_func": by_loss,
}
plots.window_ratios(
    {name: audit.ratios for name, audit in audits.items()},
    alt="Ratio of three windows for three Trainers. "
    + " ".join(
        f"{name}: {', '.join(f'{ratio:.2f}' for ratio in audit.ratios)}."
        for name, audit in audits.items()
    ),
    caption="Ratio of each update: 76 rows, micro-batches of 8, k = 4.",
)

# %%
last_window = {name: a.compared[-1].relative_error for name, a in audits.items()}
plots.error_bars(
    last_window,
    rounding=1e-5,
    alt="Relative error of the ragged last window: "
    + ", ".join(f"{name} {error:.1e}" for name, error in last_window.items())
    + ".",
    caption="What is left in the short and ragged last window.",
)

# %% tags=["nbval-check-output"]
for name, audit in audits.items():
    print(f"{name:28} every window exact: {audit.exact}")

# %% [markdown]
# For text classification you need not write the loss each time.
# `equivalence.summed_cross_entropy` is the same, with evaluation and half precision
# thought of.
# The audit also tries remedies on its copy, and names the first that helps:

# %%
print(as_it_comes.remedy)

# %% [markdown]
# Now train the repaired Trainer as we trained the first one.

# %%
repaired = new_trainer(
    models.classifier(),
    tickets.tokenized("train"),
    loss=exact_loss,
    evaluated=tickets.tokenized("validation"),
    logging_first_step=True,
    num_train_epochs=3,
)
result = repaired.train()

# %%
first_loss = repaired.state.log_history[0]["loss"]
repaired_scores = repaired.evaluate()
print(f"first logged loss {first_loss:.3f}, and ln 2 is {math.log(2):.3f}")
for name in ("eval_loss", "eval_accuracy", "eval_f1"):
    before, after = evaluations[-1][name], repaired_scores[name]
    print(f"{name:14} as it comes {before:.3f}   repaired {after:.3f}")

# %% [markdown]
# The log is right, and the scores are much the same.
# That is AdamW again: the scores could not show the fault, and cannot show the repair.
#
# ## Arguments that belong together
#
# Your batch does not fit.
# You make the micro-batch smaller, and the accumulation steps have to follow, or the
# effective batch shrinks with it.
#
# The Trainer's `auto_find_batch_size` does only the first half of that.
# The audit warns of it:

# %%
halving = new_trainer(copy.deepcopy(trained), even, auto_find_batch_size=True)
print(textwrap.fill(equivalence.audit(halving).notes[0], 80))

# %% [markdown]
# ### Exercise 4.7: keep the effective batch
#
# At most `most_rows` rows fit at once.
# Choose the two arguments so that the effective batch stays what it was, to the row.
# Take the largest micro-batch that allows it: fewer passes are faster.


# %% tags=["exercise-4.7"]
def fitting(effective_batch, most_rows):
    """The two arguments, as a dictionary for `TrainingArguments`."""
    ### BEGIN SOLUTION
    sizes = range(1, min(effective_batch, most_rows) + 1)
    rows = max(size for size in sizes if effective_batch % size == 0)
    return {
        "per_device_train_batch_size": rows,
        "gradient_accumulation_steps": effective_batch // rows,
    }
    ### END SOLUTION


# %%
fitting = ex.fitting(fitting)

# %% [markdown]
# ### Exercise 4.8: find the fault
#
# Here is a Trainer that somebody hands you. It has one fault.
# Audit it, and choose:
#
# - **a** nobody divides, so each update is k times too large
# - **b** the mean of unequal micro-batches' means is taken
# - **c** the rows of a micro-batch change each other's loss
# - **d** the short last window is divided by k

# %%
mystery = ex.mystery_trainer()
print(type(mystery).__name__, "of", len(mystery.train_dataset), "rows")

# %% tags=["exercise-4.8"]
### BEGIN SOLUTION
# stub: # equivalence.audit(...)
# stub: hidden_fault = ...  # "a", "b", "c" or "d"
print(equivalence.audit(mystery).cause)
hidden_fault = "c"
### END SOLUTION

# %%
hidden_fault = ex.hidden_fault(hidden_fault)

# %% [markdown]
# ## Ease against control
#
# There are three ways to accumulate: your own loop, Accelerator, Trainer.
# Here is each of them, as short as it can be, for the same training.
#
# By hand, in PyTorch, with the window's own number of targets:


# %%
def by_hand(model, optimizer, rows):
    batches = iter(DataLoader(rows, 8, collate_fn=tickets.collator))
    while window := list(islice(batches, 4)):
        targets = sum(len(batch["labels"]) for batch in window)
        for batch in window:
            batch = batch.to(device)
            loss = model(**batch).loss * len(batch["labels"])
            (loss / targets).backward()
        optimizer.step()
        optimizer.zero_grad()


# %% [markdown]
# With Accelerator, as its documentation writes it:


# %%
def with_accelerator(model, optimizer, rows):
    loader = DataLoader(rows, 8, collate_fn=tickets.collator)
    accelerator = Accelerator(gradient_accumulation_steps=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            optimizer.zero_grad()


# %% [markdown]
# And with the Trainer, our common arguments written out:


# %%
def with_trainer(model, optimizer, rows):
    args = TrainingArguments(
        output_dir=folder.name,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=4,
        num_train_epochs=1,
        use_cpu=device.type == "cpu",
        report_to=[],
        disable_tqdm=True,
    )
    own = {"train_dataset": rows, "data_collator": tickets.collator}
    Trainer(model, args, optimizers=(optimizer, None), **own).train()


# %% [markdown]
# ### Lines, and steps in your hands
#
# We count two things from the sources.
# **Statements** are what Python's own parser counts, so that the layout plays no role.
# **Steps in your hands** are the parts of an update that stand in your own code, where
# you can change them.

# %%
signs = {
    "cut the windows": "islice(",
    "move to the device": ".to(device)",
    "forward": "model(**",
    "divide": " / ",
    "backward": "backward(",
    "optimizer step": ".step(",
    "empty .grad": "zero_grad(",
}
ways = {"PyTorch": by_hand, "Accelerator": with_accelerator, "Trainer": with_trainer}
sources = {name: inspect.getsource(way) for name, way in ways.items()}

# %%
statements, in_hand = {}, {}
for name, source in sources.items():
    nodes = ast.walk(ast.parse(source))
    statements[name] = sum(isinstance(node, ast.stmt) for node in nodes) - 1
    mine = [step for step, sign in signs.items() if sign in source]
    in_hand[name] = len(mine)
    print(f"{name:12} {len(source.strip().splitlines()):2} lines, {statements[name]} "
          f"statements; in hand: {', '.join(mine) or 'none'}")  # fmt: skip

# %% [markdown]
# The Trainer's knobs are of another kind: they are settings.
# You can turn each of them, and cannot reach in between.

# %%
for kind in (Accelerator, TrainingArguments):
    print(f"{kind.__name__:18} {len(inspect.signature(kind).parameters)} settings")

# %% [markdown]
# ### Speed
#
# The same rows through all three, in turns, three rounds.
# The fastest round of each counts, as it was disturbed least.


# %%
def seconds(way, rows):
    """Seconds of one epoch; what the way prints is put aside."""
    model = models.classifier().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        way(model, optimizer, rows)
    return time.perf_counter() - start


# %%
some = tickets.tokenized().select(range(256))
rounds = [{name: seconds(way, some) for name, way in ways.items()} for _ in range(3)]
speed = {name: len(some) / min(turn[name] for turn in rounds) for name in ways}
for name, value in speed.items():
    print(f"{name:12} {value:6.0f} samples a second")

# %% [markdown]
# Setting up is timed as well.
# Our model is tiny, so much of the time is spent around it, and the Trainer does most
# there. The longer a model takes for its own work, the less that matters.
#
# ### Exactness
#
# Last, the short and ragged last window.
# `equivalence.watch` compares the loops' updates; the Trainer was audited above.

# %%
windows = list(training.windows(data.loader(tickets, 8, rows=76), 4))
errors = {}
for name in ("PyTorch", "Accelerator"):
    model = copy.deepcopy(trained).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with equivalence.watch(model, optimizer, windows) as updates:
        ways[name](model, optimizer, uneven)
    errors[name] = updates.comparisons[-1].relative_error
errors["Trainer"] = last_window["as it comes"]

# %%
plots.ease_against_control(
    {
        "statements you write": statements,
        "steps in your hands": in_hand,
        "samples a second": speed,
        "relative error, last window": errors,
    },
    log=["relative error, last window"],
    alt="Four panels for PyTorch, Accelerator and Trainer. "
    + " ".join(
        f"{name}: {statements[name]} statements, {in_hand[name]} steps in your hands, "
        f"{speed[name]:.0f} samples a second, relative error {errors[name]:.1e}."
        for name in ways
    ),
    caption="Ease against control, each way as short as it can be.",
)

# %% [markdown]
# The fewer statements you write, the less you hold, and the more you take on trust.
# The Trainer's lines are settings; none of them is a step of the loop.
#
# Accelerator's short window is lesson 3's subject.
# One more argument makes the Trainer exact, and the audit has shown it:

# %%
exact_error = last_window["compute_loss_func"]
print(f"Trainer with compute_loss_func: relative error {exact_error:.0e}")

# %% [markdown]
# - Take the **Trainer** for a standard task: checkpoints, evaluation and logs come with
#   it. Audit it once.
# - Take **Accelerator** for a loop of your own on any number of devices.
# - Take **PyTorch** where you want to see or change what happens between two lines.

# %% [markdown]
# ## The scorecard
#
# The course has met many ways to train, and many situations.
# Here they all are. Each box is trained and measured now, with a tiny language model
# for which the micro-batches' targets can differ.
# The number is the relative error against large batches; a tick is rounding.

# %%
card = equivalence.scorecard()
right = {way: sum(e < 1e-4 for e in card.column(way).values()) for way in card.ways}
plots.score_map(
    card.ways,
    card.situations,
    card.errors,
    alt="A table of seven ways to train in eight situations. Right in so many of them: "
    + ", ".join(f"{way} {number}" for way, number in right.items())
    + ".",
    caption="Every way to train of lessons 2 to 4, in every situation.",
)

# %%
print("right everywhere:", ", ".join(way for way in card.ways if card.exact(way)))

# %% [markdown]
# One rule stands behind all that are right everywhere: divide by the targets of the
# window, once.

# %% [markdown]
# ## What you measured

# %%
flag_error = last_window["accepts_loss_kwargs = False"]
print(f"gradient and logged loss as it comes: {factor} and {log_factor:.2f} times")
print(f"what k times too large moves, AdamW:  {distances['AdamW']:.2g} of the way")
print(f"the same with clipping:               {distances['AdamW, clipped']:.2g}")
print(f"last window, accepts_loss_kwargs:     relative error {flag_error:.2f}")
print(f"last window, compute_loss_func:       relative error {exact_error:.0e}")
print(f"F1 of the urgent after three epochs:  {evaluations[-1]['eval_f1']:.3f}")
slower = speed["PyTorch"] / speed["Trainer"]
print(f"the Trainer's loop, on a tiny model:  {slower:.1f} times slower than PyTorch's")

# %% [markdown]
# - You give a Trainer settings and no loop. Its steps are updates.
# - Whether it divides depends on what the model's signature promises. Audit it.
# - The first logged loss of an untrained model is a free test.
# - AdamW hides a constant factor from the scores; clipping brings it back.
# - `compute_loss_func`, the sum by `num_items_in_batch`, is exact for every window.
#
# Your marks so far:

# %%
exercises.progress()

# %% [markdown]
# **Next:** [lesson 5](05_unequal_micro_batches.ipynb) takes a language model, where
# every micro-batch has another number of targets.
#
# ### Sources
#
# - [Issue 47688 of transformers: the head that drops the
#   count](https://github.com/huggingface/transformers/issues/47688)
# - [Hugging Face: the loss normalisation fault of
#   2024](https://huggingface.co/blog/gradient_accumulation)
# - [The Trainer in the documentation of
#   transformers](https://huggingface.co/docs/transformers/main_classes/trainer)
