"""Audits a head of transformers from a shell, with no network and no weight file.

python -m helpers.equivalence --model distilbert --task sequence-classification
python -m helpers.equivalence --task causal-lm --list
python -m helpers.equivalence --task masked-lm --all --csv table.csv
python -m helpers.equivalence --checkpoint NAME --task sequence-classification

Exit status: 0 exact, 1 not exact, 2 could not tell. With --all: 1 where any head is
not exact, 0 where all that could be told are.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

EXACT, NOT_EXACT, CANNOT_TELL = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not (options.list or options.all or options.model or options.checkpoint):
        parser.error("say which: --model, --checkpoint, --all or --list")
    _quiet()
    from helpers.equivalence import heads, tiny
    from helpers.hub import HubUnavailable

    try:
        if options.list:
            print("\n".join(tiny.architectures(options.task)))
            return EXACT
        if options.all:
            return _all(options, tiny.architectures(options.task))
        found, result = heads.audit_head(
            options.checkpoint or options.model,
            options.task,
            options.accumulation_steps,
            checkpoint=bool(options.checkpoint),
        )
    except (ValueError, HubUnavailable) as error:
        print(error, file=sys.stderr)
        return CANNOT_TELL
    if options.json:
        print(json.dumps(asdict(result)))
    else:
        print(f"{result.head or result.model}, {options.task}, k = {_k(options)}")
        print(found if found is not None else f"Cannot tell: {result.why}")
    return {True: EXACT, False: NOT_EXACT, None: CANNOT_TELL}[result.exact]


def _all(options: argparse.Namespace, models: list[str]) -> int:
    from tqdm.auto import tqdm

    from helpers.equivalence import sweep

    with tqdm(total=len(models), unit="head", file=sys.stderr) as bar:
        results = sweep.sweep(
            models,
            options.task,
            _k(options),
            seconds=options.seconds,
            jobs=options.jobs,
            done=bar.update,
        )
    print(sweep.table(results))
    if options.csv:
        sweep.write_csv(results, options.csv)
    states = [result.exact for result in results]
    if False in states:
        return NOT_EXACT
    return EXACT if True in states else CANNOT_TELL


def _k(options: argparse.Namespace) -> int:
    return options.accumulation_steps


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m helpers.equivalence",
        description="Is the Trainer's accumulated gradient that of the whole batch?",
        epilog="Exit status: 0 exact, 1 not exact, 2 could not tell.",
    )
    parser.add_argument("--model", help="an architecture, such as distilbert")
    parser.add_argument("--checkpoint", help="a folder, or a name on the Hub")
    parser.add_argument("--task", default="sequence-classification", help="of the head")
    parser.add_argument("--accumulation-steps", type=int, default=4, metavar="K")
    parser.add_argument("--list", action="store_true", help="list the architectures")
    parser.add_argument("--all", action="store_true", help="audit every architecture")
    parser.add_argument("--csv", type=Path, help="with --all: write the table here too")
    parser.add_argument(
        "--seconds", type=float, default=120, help="with --all: for one"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="with --all: processes at a time",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    return parser


def _quiet() -> None:
    """Nothing but the result: no advice, no progress bars of others, one thread."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    import torch

    torch.set_num_threads(1)  # more are slower for models this small


if __name__ == "__main__":
    sys.exit(main())
