"""The exercises of lesson 4; those that are code lie in the files beside this."""

from __future__ import annotations

from ..exercises import Choice, Exercise, Wrong, number
from .lesson_04_arguments import fitting
from .lesson_04_loss import exact_loss
from .lesson_04_metrics import compute_metrics
from .lesson_04_runs import LOG_STEPS, mystery_trainer, somebodys_log

LESSON = "04_trainer"
__all__ = [
    "compute_metrics",
    "exact_loss",
    "fitting",
    "hidden_fault",
    "hidden_steps",
    "is_it_harmless",
    "mystery_trainer",
    "somebodys_log",
    "updates_made",
    "what_is_wrong",
]


def _updates_made(answer, measured) -> str:
    guess, measured = number(answer), number(measured)
    if guess == measured:
        return f"It made {measured:.0f}. What the Trainer calls a step is an update."
    known = {
        255: "That is the number of micro-batches in one epoch.",
        765: "That is the number of micro-batches; an update comes after every fourth.",
        64: "That is one epoch; there are three.",
        63: "That is one epoch, and its short last window is left out.",
        189: "You left out the short last window of each epoch; the Trainer steps for "
        "it as well.",
        191: "No window reaches into the next epoch: round up in each of them.",
    }
    raise Wrong(f"{known.get(guess, 'Not quite.')} It made {measured:.0f}.", hint=1)


updates_made = Exercise(
    "4.2",
    "updates_made",
    _updates_made,
    hints=[
        "Micro-batches of 8 rows from 2036 rows: how many, the last one included?",
        "Cut the 255 micro-batches of an epoch into windows of 4, the short one "
        "included; then three epochs.",
    ],
    lesson=LESSON,
    kind="Prediction",
)


def _hidden_steps(answer) -> str:
    guess = number(answer)
    if guess == LOG_STEPS:
        return (
            f"{LOG_STEPS}: the first loss is {LOG_STEPS} times ln 2, which is what two "
            "classes give before anything is learned."
        )
    if abs(guess - LOG_STEPS) < 0.5:
        raise Wrong("Nearly: accumulation steps are a whole number. Round.", hint=1)
    if 5 <= guess < 6.5:
        raise Wrong(
            "That is the logged loss itself. How many times too large is it?", hint=0
        )
    if guess == 4:
        raise Wrong(
            "4 is what this lesson uses, and the log is of another run: hold its first "
            "loss against that of an untrained model.",
            hint=0,
        )
    raise Wrong(
        "Divide the first loss of the log by what a model with two classes has before "
        "it has learned anything.",
        hint=1,
    )


hidden_steps = Exercise(
    "4.3",
    "hidden_steps",
    _hidden_steps,
    hints=[
        "An untrained model gives each of two classes a half. What is its mean loss?",
        "That loss is ln 2, about 0.69. Divide the first loss of the log by it and "
        "round.",
    ],
    lesson=LESSON,
)

what_is_wrong = Choice(
    "4.4",
    "what_is_wrong",
    options={
        "a": "An overfitted model has a training loss below its validation loss. Here "
        "it is far above.",
        "b": "A rate that is too high makes the loss rise or jump. Here both losses "
        "fall from epoch to epoch.",
        "c": "Both losses are about the same model, and one is several times the "
        "other, from the first update on: the micro-batches' losses are added up and "
        "nothing divides them. The gradient is too large by the same factor.",
        "d": "Dropout raises the training loss a little, not several times; and before "
        "anything is learned it changes next to nothing.",
    },
    right="c",
    hints=[
        "Hold each epoch's training loss against the validation loss beside it.",
        "Which fault multiplies the loss before anything has been learned?",
    ],
    lesson=LESSON,
)

is_it_harmless = Choice(
    "4.5",
    "is_it_harmless",
    options={
        "a": "With AdamW alone, nearly so. The figure shows what clipping makes of it, "
        "and the Trainer clips unless it is told not to.",
        "b": "AdamW divides by the gradient's own size, so its steps stay as long as "
        "before. The figure shows it: AdamW without clipping ends at almost the same "
        "place.",
        "c": "Clipping compares the gradient with a fixed length. K times too large, "
        "it is cut where the large batch would not be, and the updates lose their "
        "proportions.",
    },
    right="c",
    hints=[
        "AdamW does not see a constant factor. What else stands between the gradient "
        "and the step?",
        "The Trainer's default for max_grad_norm is 1. Compare the two bars of AdamW.",
    ],
    lesson=LESSON,
)

hidden_fault = Choice(
    "4.8",
    "hidden_fault",
    options={
        "a": "Then every ratio would be the accumulation steps, and no more would be "
        "wrong. Look at the residuals.",
        "b": "All of its micro-batches have the same number of targets, so the mean of "
        "means is the mean.",
        "c": "Batch normalisation takes mean and variance over the rows of a "
        "micro-batch, so each row's loss depends on the others. No loss function "
        "repairs that: freeze the layer, or take LayerNorm.",
        "d": "Its 64 rows make two full windows; there is no short one.",
    },
    right="c",
    hints=[
        "Run equivalence.audit(mystery) and read the line that begins with cause.",
        "print(mystery.model): which layer looks at more than one row at a time?",
    ],
    lesson=LESSON,
)
