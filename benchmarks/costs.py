"""What the lessons and the audit take."""

from __future__ import annotations

import time

from authoring import measure
from authoring.build import lessons
from benchmarks.report import Check, Part, Setting
from helpers.equivalence import sweep

AUDITED = ("distilbert", "bert", "gpt2", "llama", "vit")
TASKS = {"gpt2": "causal-lm", "llama": "causal-lm", "vit": "image-classification"}
STEPS = 4


def run_lessons(setting: Setting) -> Part:
    """Run every solved notebook as a learner would, in a kernel of its own."""
    part = Part(
        "Lessons",
        "Each solved notebook from its first cell to its last, the start of its kernel "
        "included.",
        ["lesson", "seconds", "peak MiB"],
    )
    course = lessons()[:1] if setting.quick else lessons()
    spent = [measure.cost(lesson) for lesson in course]
    for lesson, cost in zip(course, spent, strict=True):
        number, title = measure.heading(lesson)
        part.rows.append([f"{number} · {title}", cost.seconds, cost.mebibytes])
        seconds, mebibytes = measure.PROMISED.get(number, measure.USUAL)
        part.checks += [
            Check(f"lesson {number}, seconds", cost.seconds, "≤", seconds, " s"),
            Check(f"lesson {number}, memory", cost.mebibytes, "≤", mebibytes, " MiB"),
        ]
    return part


def run_audits(setting: Setting) -> Part:
    """Audit a Trainer of several architectures, each in a process of its own."""
    part = Part(
        "Audits",
        f"`python -m helpers.equivalence` on tiny models with k = {STEPS}, the start "
        "of Python and its imports included.",
        ["architecture", "task", "seconds", "the audit says"],
    )
    times = []
    for model in AUDITED[:1] if setting.quick else AUDITED:
        task = TASKS.get(model, "sequence-classification")
        start = time.perf_counter()
        (result,) = sweep.sweep([model], task, STEPS)
        times.append(time.perf_counter() - start)
        part.rows.append([model, task, times[-1], result.said])
    part.checks = [Check("slowest audit", max(times), unit=" s")]
    return part
