"""The planner against tools that search by running out of memory."""

from __future__ import annotations

import gc
import math
import time

from benchmarks import cases, searches
from benchmarks.report import Check, Part, Setting
from helpers import memory

EFFECTIVE = 64
SHAPE = {"width": 64, "layers": 2, "length": 48}
MEBIBYTES = {  # the least of DistilBERT and Llama is below the floor
    "DistilBERT": (2, 4, 6, 11, 20, 46),
    "GPT-2": (5, 16, 37, 81),
    "Llama": (3, 9, 25, 63),
}


def run(setting: Setting) -> Part:
    """Plan for each model and budget, try the plan for real, then let others search."""
    part = Part(
        "A plan against a search",
        f"Effective batch {EFFECTIVE}, AdamW, under a budget that `memory.limit` "
        "enforces from the start of training. Planned: `memory.plan`, then trained as "
        "planned, and with one row more. Searched: Accelerate's "
        "`find_executable_batch_size` from 64 down, and the Trainer with "
        f"`auto_find_batch_size`, each of {searches.UPDATES} updates a try. Failures "
        "are out-of-memory errors on the way. The seconds of a plan include its "
        "model's forecast. Those of a search leave out the look for garbage in "
        "imported libraries at each failure, which is several times as much.",
        ["model", "budget MiB", "plan", "runs", "one row more runs", "plan s",
         "Accelerate: failures", "s", "effective batch",
         "Trainer: failures", "s", "effective batch"],
    )  # fmt: skip
    plans, runs = [], {"Accelerate": [], "Trainer": []}
    for name, sizes in ({"DistilBERT": (20,)} if setting.quick else MEBIBYTES).items():
        case = cases.small(name, **SHAPE)
        start = time.perf_counter()
        costs = memory.forecast(case.model, case.make_batch, device=setting.device)
        if not setting.exact:
            costs = costs.calibrated()
        forecast = time.perf_counter() - start
        gc.collect()
        gc.freeze()  # each failure looks for garbage, which the libraries are not
        for size in sizes:
            budget = size * memory.MiB + costs.overhead
            plans.append(planned(case, costs, budget, setting))
            row = [name, size, *plans[-1][:-1], forecast + plans[-1][-1]]
            for tool, search in (
                ("Accelerate", searches.by_accelerate),
                ("Trainer", searches.by_trainer),
            ):
                found = search(case, budget, EFFECTIVE, setting.device)
                runs[tool].append(found)
                row += [found.failures, found.seconds, found.effective]
            part.rows.append(row)
    part.checks = _checks(plans, runs)
    return part


def planned(case: cases.Case, costs, budget: float, setting: Setting) -> tuple:
    """(plan in words, it runs, the next larger runs, seconds of the plan).

    Where the plan is that nothing fits, the next larger is one row, and no plan runs.
    """
    start = time.perf_counter()
    try:
        plan = memory.plan(costs, budget, EFFECTIVE)
    except ValueError:
        plan = None
    seconds = time.perf_counter() - start
    if plan is None:
        one = searches.fits(case, [1] * EFFECTIVE, budget, setting.device)
        return "nothing fits", None, one, seconds
    said = f"{plan.accumulation_steps} × {plan.micro_batch}"
    if plan.last != plan.micro_batch:
        said = f"{plan.accumulation_steps - 1} × {plan.micro_batch} + {plan.last}"
    runs = searches.fits(case, window(plan.micro_batch), budget, setting.device)
    more = None
    if plan.micro_batch < EFFECTIVE:
        larger = window(plan.micro_batch + 1)
        more = searches.fits(case, larger, budget, setting.device)
    kept = plan.effective_batch == EFFECTIVE == sum(window(plan.micro_batch))
    return said, runs and kept, more, seconds


def window(rows: int) -> list[int]:
    """Sizes of the micro-batches of an effective batch, at most `rows` each."""
    steps = math.ceil(EFFECTIVE / rows)
    return [rows] * (steps - 1) + [EFFECTIVE - rows * (steps - 1)]


def _checks(plans: list[tuple], runs: dict[str, list[searches.Search]]) -> list[Check]:
    failed = sum(ran is False for _, ran, _, _ in plans)
    beaten = sum(more is True for _, _, more, _ in plans)
    some = sum(ran is not None for _, ran, _, _ in plans)
    found = [
        Check("models × budgets that were planned for", len(plans)),
        Check("plans that failed, or lost the effective batch", failed, "=", 0),
        Check("plans that one row more would have bettered", beaten, "=", 0),
    ]
    for tool, searched in runs.items():
        failures = sum(search.failures for search in searched)
        kept = sum(search.effective == EFFECTIVE for search in searched)
        found.append(Check(f"failures of {tool}'s search on the way", failures))
        what = f"effective batch kept by {tool}, of {some} cases where something fits"
        found.append(Check(what, kept))
    return found
