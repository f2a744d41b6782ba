"""Accuracy and F1 as one metric of evaluate, without the Hub.

`evaluate.load("accuracy")` fetches a script from the Hub, and fails offline. This one
is part of the course; scikit-learn does the sums.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import evaluate


def accuracy_f1() -> evaluate.Metric:
    """A metric whose `compute(predictions=, references=)` gives "accuracy" and "f1".

    Both take class numbers, 0 or 1, one a row. F1 is that of class 1, as in GLUE's
    MRPC, and 0 where class 1 is neither predicted nor there. The cache is left alone.
    """
    # evaluate makes a folder even if all stays in memory: give it one that goes away.
    folder = tempfile.mkdtemp(prefix="accuracy_f1_")
    metric = _metric_class()(keep_in_memory=True, cache_dir=folder)
    weakref.finalize(metric, shutil.rmtree, folder, ignore_errors=True)
    return metric


@functools.cache
def _metric_class() -> type[evaluate.Metric]:
    # A function, so that importing this module does not cost the seconds of evaluate.
    import datasets
    import evaluate
    from sklearn.metrics import accuracy_score, f1_score

    class AccuracyF1(evaluate.Metric):
        """Accuracy, and F1 of class 1."""

        def _info(self) -> evaluate.MetricInfo:
            whole = datasets.Value("int64")
            return evaluate.MetricInfo(
                description="Accuracy, and F1 of class 1.",
                citation="",
                inputs_description="predictions, references: class numbers, 0 or 1",
                features=datasets.Features(predictions=whole, references=whole),
            )

        def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
            for name, classes in (
                ("predictions", predictions),
                ("references", references),
            ):
                strange = sorted({int(c) for c in classes} - {0, 1})
                if strange:
                    raise ValueError(
                        f"{name} hold {strange[0]}, and have to be 0 or 1: give class "
                        "numbers, for example logits.argmax(-1)."
                    )
            return {
                "accuracy": float(accuracy_score(references, predictions)),
                "f1": float(f1_score(references, predictions, zero_division=0)),
            }

    return AccuracyF1
