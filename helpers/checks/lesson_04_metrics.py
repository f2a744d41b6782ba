"""Exercise 4.1 of lesson 4: the metrics that a Trainer asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..exercises import Exercise, Wrong, call, number

LESSON = "04_trainer"


def _case(seed: int):
    """Logits (60, 2) and labels (60,), where about every third row is of class 1."""
    import numpy

    draw = numpy.random.default_rng(seed)
    labels = (draw.random(60) < 0.35).astype("int64")
    logits = draw.normal(size=(60, 2)).astype("float32")
    logits[:, 1] += 1.2 * labels + 0.4
    return logits, labels


def _compute_metrics(answer) -> str:
    from transformers import EvalPrediction

    for seed in (41, 42):
        logits, labels = _case(seed)
        given = EvalPrediction(predictions=logits.copy(), label_ids=labels.copy())
        found = call(answer, given)
        if not isinstance(found, Mapping):
            raise Wrong(
                "The Trainer wants a dictionary, names to numbers. Is a `return` "
                "missing?",
                hint=1,
            )
        found = {str(k).removeprefix("eval_"): v for k, v in found.items()}
        for name in ("accuracy", "f1"):
            if name not in found:
                raise Wrong(
                    f'The dictionary has no "{name}"; it has {sorted(found)}.', hint=1
                )
            _judge(name, number(found[name]), logits, labels)
    return "Accuracy, and the F1 of class 1, from the class with the larger logit."


def _judge(name: str, got: float, logits, labels) -> None:
    right = _scores(logits.argmax(1), labels)
    want = right[name]
    if math.isclose(got, want, abs_tol=1e-6):
        return
    if math.isclose(got, 100 * want, abs_tol=1e-4):
        raise Wrong(f"Your {name} is in per cent; leave it between 0 and 1.", hint=1)
    upside_down = _scores(logits.argmin(1), labels)
    if math.isclose(got, upside_down[name], abs_tol=1e-6):
        raise Wrong("You chose the class with the smaller logit.", hint=0)
    threshold = _scores((logits[:, 1] > 0).astype(int), labels)
    if math.isclose(got, threshold[name], abs_tol=1e-6):
        raise Wrong(
            "You ask whether the logit of class 1 is above 0. The class chosen is the "
            "one with the larger of the two logits.",
            hint=0,
        )
    kinds = {
        "of class 0": right["f1 of class 0"],
        "averaged over both classes": (right["f1"] + right["f1 of class 0"]) / 2,
        "of all rows, which is the accuracy": right["accuracy"],
    }
    for kind, value in kinds.items():
        if name == "f1" and math.isclose(got, value, abs_tol=1e-6):
            raise Wrong(f"This is the F1 {kind}. The one of class 1 is wanted.", hint=1)
    raise Wrong(f"Your {name} is {got:.4f}; {want:.4f} is right here.", hint=0)


def _scores(chosen, labels) -> dict[str, float]:
    def f1(of: int) -> float:
        both = ((chosen == of) & (labels == of)).sum()
        return float(2 * both / ((chosen == of).sum() + (labels == of).sum()))

    accuracy = float((chosen == labels).mean())
    return {"accuracy": accuracy, "f1": f1(1), "f1 of class 0": f1(0)}


compute_metrics = Exercise(
    "4.1",
    "compute_metrics",
    _compute_metrics,
    hints=[
        "predicted.predictions holds two logits a row. The class of a row is the "
        "place of the larger one: argmax over the last axis.",
        "Return metric.compute(predictions=those classes, "
        "references=predicted.label_ids); it is the dictionary that is wanted.",
    ],
    lesson=LESSON,
)
