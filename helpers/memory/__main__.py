"""Foretells from a shell what training takes, and plans it: nothing is allocated.

python -m helpers.memory --model distilbert-base --effective-batch 64 --budget 15GiB
python -m helpers.memory --model gpt2 --budget 8GiB --precision bf16 --checkpointing
python -m helpers.memory --model my_model.py:training --budget 24GB --picture bars.png

Exit status: 0 there is a plan, 1 the budget is below the floor, 2 could not tell.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from helpers import memory
from helpers.memory import presets, shell_text
from helpers.memory.presets import OPTIMIZERS, PRECISIONS

PLANNED, BELOW, CANNOT_TELL = 0, 1, 2
UNITS = {"b": 1} | {f"{p}b": 1000**n for n, p in enumerate("kmgt", 1)}
UNITS |= {f"{p}ib": 1024**n for n, p in enumerate("kmgt", 1)}
# What could lower the need, and the options that say so.
WAYS = {
    "--checkpointing": {"checkpointing": True},
    "--precision bf16": {"precision": "bf16"},
    "--optimizer sgd": {"optimizer": "sgd"},
    "--optimizer adafactor": {"optimizer": "adafactor"},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = _parser().parse_args(arguments)
    _quiet()
    start = time.perf_counter()
    try:
        make_model, make_batch = _model(options.model, options.sequence_length)

        def forecast(**changed) -> memory.Forecast:
            return _forecast(make_model, make_batch, {**vars(options), **changed})

        found = forecast()
        plan, below = _plan(found, options)
        ways = {} if plan else _ways(forecast, options)
        if options.picture:
            _save(found, plan, options)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return CANNOT_TELL
    facts = {
        "model": options.model,
        "weights": found.weights,
        "optimizer": options.optimizer,
        "precision": options.precision,
        "checkpointing": options.checkpointing,
        "sequence_length": options.sequence_length,
        "effective_batch": options.effective_batch,
        "budget": options.budget,
        "floor": found.floor,
        "micro_batches": shell_text.micro_batches(found, plan, options),
        "plan": asdict(plan) if plan else None,
        "below": below,
        "ways": ways,
        "notes": found.notes,
        "seconds": round(time.perf_counter() - start, 2),
    }
    if options.json:
        print(json.dumps(facts))
    else:
        print(shell_text.page(facts, str(plan) if plan else ""))
        if below:
            print(below, file=sys.stderr)
    return PLANNED if plan else BELOW


def size(text: str) -> int:
    """Bytes of "15GiB", "512 MiB" or "24GB" (of 1000 each).

    Raises:
        argparse.ArgumentTypeError: it is no size above 0 with a unit.
    """
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-zA-Z]*)", text.strip())
    factor = UNITS.get(found[2].lower()) if found else None
    if factor is None or float(found[1]) * factor < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size: write a number above 0 and its unit, such as "
            "15GiB or 512MiB (of 1024 each) or 24GB (of 1000)."
        )
    return int(float(found[1]) * factor)


def _rows(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on.")
    return int(text)


def _model(name: str, length: int):
    """The two functions that a forecast asks for.

    Raises:
        ValueError: there is no such preset, file or function.
    """
    if name in presets.PRESETS:
        preset = presets.PRESETS[name]
        return preset.make_model, preset.make_batch(length)
    path, colon, function = name.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise ValueError(
            f"There is no preset {name!r}: take {', '.join(presets.PRESETS)}, or a "
            "function of your own as FILE.py:FUNCTION."
        )
    import runpy

    made = runpy.run_path(path).get(function)
    try:
        make_model, make_batch = made(length)
    except TypeError as error:
        raise ValueError(
            f"{function} of {path} must be a function that is called with the sequence "
            f"length and gives make_model and make_batch: {error}."
        ) from error
    return make_model, make_batch


def _forecast(make_model, make_batch, settings: dict) -> memory.Forecast:
    return memory.forecast(
        make_model,
        make_batch,
        OPTIMIZERS[settings["optimizer"]],
        autocast=PRECISIONS[settings["precision"]],
        checkpointing=settings["checkpointing"],
        device=settings["device"],
    )


def _plan(found: memory.Forecast, options) -> tuple[memory.Plan | None, str]:
    """The plan, or None and the planner's own words why there is none."""
    try:
        return memory.plan(found, options.budget, options.effective_batch), ""
    except ValueError as error:
        return None, str(error)


def _ways(forecast, options) -> dict[str, int | str]:
    """{option: bytes that one row would take}, or why it cannot be had."""
    found: dict[str, int | str] = {}
    for way, changed in WAYS.items():
        if changed.items() <= vars(options).items():
            continue  # it is on already
        print(f"Forecasting {way} ...", file=sys.stderr)
        try:
            found[way] = forecast(**changed).peak(1, options.effective_batch)
        except ValueError as error:
            found[way] = str(error)
    return found


def _save(found: memory.Forecast, plan: memory.Plan | None, options) -> None:
    from helpers.plots.forecast import save_forecast_bars

    what = f"{options.model}, {options.optimizer}, {options.precision}"
    budget = shell_text.size(options.budget)
    outcome = str(plan) if plan else f"nothing fits in {budget}"
    save_forecast_bars(
        options.picture,
        found,
        options.effective_batch,
        budget=options.budget,
        chosen=plan.micro_batch if plan else None,
        alt=f"Foretold peak memory of {what} for each micro-batch: {outcome}.",
        caption=f"{what}: foretold peak by kind, in a budget of {budget}.",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m helpers.memory",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=(
            "What would training take, and which micro-batch fits? Tensors without\n"
            "storage go through one window of training, so that a model of any size\n"
            "is forecast on any machine, and nothing runs out of memory.\n\n"
            "An update takes the effective batch; it is cut into micro-batches that\n"
            "fit, with their gradients accumulated. That lowers the activations only:\n"
            "parameters, gradients and optimizer state stay, and make the floor."
        ),
        epilog=(
            "presets:\n"
            + "".join(f"  {p.name:<16} {p.source}\n" for p in presets.PRESETS.values())
            + "\nExit status: 0 there is a plan, 1 the budget is below the floor,\n"
            "2 could not tell."
        ),
    )
    add = parser.add_argument
    add(
        "--model", required=True, metavar="NAME",
        help="a preset, or FILE.py:FUNCTION: called with the sequence length, the "
        "function gives make_model and make_batch, as memory.forecast takes them",
    )  # fmt: skip
    add(
        "--budget", required=True, type=size, metavar="SIZE",
        help="memory that training may take: 15GiB, 512MiB (of 1024), 24GB (of 1000)",
    )  # fmt: skip
    add(
        "--effective-batch", type=_rows, default=64, metavar="ROWS",
        help="rows of an update, kept exactly (default: %(default)s)",
    )  # fmt: skip
    add(
        "--sequence-length", type=_rows, default=128, metavar="TOKENS",
        help="of the longest row, which decides (default: %(default)s)",
    )  # fmt: skip
    add("--optimizer", choices=OPTIMIZERS, default="adamw", help="(default: adamw)")
    add(
        "--precision", choices=PRECISIONS, default="float32",
        help="of autocast; weights stay in float32 (default: float32)",
    )  # fmt: skip
    add(
        "--checkpointing", action="store_true",
        help="recompute activations in the backward pass and keep few of them",
    )  # fmt: skip
    add("--device", choices=("cpu", "cuda"), help="whose kernels (default: a GPU's, "
        "if there is one here)")  # fmt: skip
    add("--picture", type=Path, metavar="FILE", help="write the bars here (.png, .svg)")
    add("--json", action="store_true", help="print one line of JSON")
    return parser


def _quiet() -> None:
    """Nothing but the result: no advice and no progress bars of others."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
