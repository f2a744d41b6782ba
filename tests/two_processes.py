"""Run on two processes by test_audit_processes.py: prints one audit as JSON."""

import json
import sys

import torch

from helpers.equivalence import audit
from tests.trainers import Counted, features, llama, tokens, trainer


def main(model: str, steps: int) -> None:
    torch.set_num_threads(1)
    if model == "counted":
        made = trainer(Counted(), features(16 * steps), 4, steps, ddp_backend="gloo")
    else:
        rows = tokens([3, 5, 2, 7] * 4 * steps)
        made = trainer(llama(), rows, 2, steps, ddp_backend="gloo")
    found = audit(made, apply_remedy=True)
    if made.args.process_index == 0:
        after = found.remedied
        said = {
            "ratios": found.ratios,
            "exact": found.exact,
            "cause": found.cause,
            "micro_batches": [window.micro_batches for window in found.windows],
            "remedied": None if after is None else after.ratios,
        }
        print("FOUND " + json.dumps(said), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
