"""The exercises of lesson 7; those with a longer check lie in the files beside this."""

from __future__ import annotations

from ..exercises import Choice, Exercise, Prediction, Wrong, call, number
from .lesson_07_checkpoint import through
from .lesson_07_plan import largest_plan

LESSON = "07_below_the_floor"
__all__ = [
    "floor_bytes",
    "largest_plan",
    "left_at_one",
    "lora_floor",
    "through",
    "what_fits",
    "what_helps",
    "why_the_floor_stays",
]

left_at_one = Prediction(
    "7.1",
    "left_at_one",
    unit="MiB",
    tolerance=1.12,  # five numbers for each weight would be 1.13 times it
    explain="Four numbers for each weight are left: itself, its gradient, two of "
    "AdamW. The rest is one row's activations and what the update needs.",
    too_low="Training keeps more for each weight than the weight: count its gradient "
    "and both numbers of AdamW.",
    too_high="Of the activations hardly anything is left with one row at a time; count "
    "what is kept for each weight.",
    hints=[
        "Four kinds of bytes stay whatever the batch. Which, with AdamW?",
        "The weights in MiB stand above. Their gradients are as large, and AdamW's "
        "state twice as large: four times that figure.",
    ],
    lesson=LESSON,
)

_KEPT = {"sgd": 2, "sgd-momentum": 3, "adamw": 4}


def _floor_bytes(answer) -> str:
    for weights in (1000, 77_762):
        for optimizer, kept in _KEPT.items():
            got = number(call(answer, weights, optimizer))
            if got == kept * weights * 4:
                continue
            known = {
                kept * weights: "You counted numbers. In float32 each has 4 bytes.",
                (kept - 2) * weights * 4: "This is the optimizer state alone. The "
                "weights and their gradients are there as well.",
                (kept - 1) * weights * 4: "One number for each weight is missing: the "
                "weight itself, its gradient, then the optimizer's.",
                (kept + 1) * weights * 4: "One number too many for each weight. AdamW "
                "keeps two beside weight and gradient, momentum one, SGD none.",
            }
            raise Wrong(
                f'"{optimizer}", {weights:,} weights: '
                + known.get(
                    got,
                    f"I expected {kept * weights * 4:,} bytes and got {got:,.0f}.",
                ),
                hint=0 if got in known else 1,
            )
    return "Two, three or four numbers for each weight, whatever the batch."


floor_bytes = Exercise(
    "7.2",
    "floor_bytes",
    _floor_bytes,
    hints=[
        "For each weight: itself, its gradient, and what the optimizer remembers.",
        "Numbers for each weight: 2 with SGD, 3 with momentum, 4 with AdamW; then 4 "
        "bytes for each number.",
    ],
    lesson=LESSON,
)

why_the_floor_stays = Choice(
    "7.5",
    "why_the_floor_stays",
    options={
        "a": "Only the products of the forward pass, and what backward makes of them, "
        "are bfloat16. Weights, gradients and state are float32, and bfloat16 "
        "copies of the weights in products come on top.",
        "b": "It has the range of float32 in two bytes instead of four; it gives up "
        "digits, not range.",
        "c": "Look at the dtype that the cell above printed: the gradients are float32 "
        "as the weights are.",
    },
    right="a",
    hints=[
        "Which lines of the table of kinds fell, and which did not?",
        "The dtype of a gradient stands in the output above.",
    ],
    lesson=LESSON,
)

lora_floor = Prediction(
    "7.6",
    "lora_floor",
    unit="MiB",
    tolerance=1.08,  # the update's own is 1.06; nothing trained is 1.22 too low
    explain="All parameters once, and three numbers more for each of the few that are "
    "trained.",
    too_low="All weights are in memory, the frozen ones too. And for each trained one "
    "three numbers more.",
    too_high="A frozen weight has no gradient and no optimizer state.",
    hints=[
        "Trained weights take four numbers each. And a frozen one?",
        "(frozen + 4 * trained) numbers of 4 bytes, in MiB of 2**20 bytes.",
    ],
    lesson=LESSON,
)

what_helps = Choice(
    "7.7",
    "what_helps",
    options={
        "a": "Checkpointing saves activations, and with one row there are hardly any. "
        "The update has none at all.",
        "b": "With one row the micro-batch cannot shrink further. More steps would "
        "make the effective batch another one, and save nothing.",
        "c": "Autocast leaves weights, gradients and optimizer state in float32; its "
        "copies of the weights come on top.",
        "d": "The floor of AdamW with all weights trained is what it is. AdamW with "
        "fused=True saves the temporaries of the update; beyond that it takes another "
        "training, a smaller model, or several devices that share the state.",
    },
    right="d",
    hints=[
        "It runs out in the update. Which kinds of bytes are alive then?",
        "Look at the column of the floor in the table: which rows save anything there, "
        "with AdamW and all weights trained?",
    ],
    lesson=LESSON,
)

what_fits = Choice(
    "7.8",
    "what_fits",
    options={
        "a": "Checkpointing saves activations, and the floor of AdamW alone is above "
        "the budget.",
        "b": "Momentum still keeps three numbers for each weight, of AdamW's four. "
        "That is 0.75 times as much, and the budget is 0.7.",
        "c": "Weights and gradients are two of AdamW's four numbers. The sums over "
        "rows and columns are small, so there is room for some activations.",
        "d": "Autocast leaves all of the floor in float32, and adds copies of the "
        "weights.",
    },
    right="c",
    hints=[
        "Which of the four lower the floor at all? See its column in the table.",
        "Count the numbers for each weight: AdamW has four, and 0.7 times four is 2.8.",
    ],
    lesson=LESSON,
)
