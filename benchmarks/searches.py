"""What others do about a budget: try, run out of memory, try less."""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch.utils.data import DataLoader

from benchmarks.cases import Case
from helpers import memory, training
from helpers.equivalence.twin import undisturbed

UPDATES = 2  # the second one holds the optimizer state from its start


@dataclass
class Search:
    """Sizes that were tried in order, and what came of it.

    Attributes:
        effective: rows of an update at the end; None where nothing fitted.
    """

    tried: list[int] = field(default_factory=list)
    effective: int | None = None
    seconds: float = 0.0

    @property
    def failures(self) -> int:
        """Out-of-memory errors on the way."""
        return len(self.tried) - (self.effective is not None)


def fits(case: Case, sizes: list[int], budget: float, device: torch.device) -> bool:
    """Train windows of micro-batches of these sizes for real, in a budget."""
    model = build(case, device)
    optimizer = torch.optim.AdamW(model.parameters())
    try:
        with memory.limit(budget, model, optimizer):
            for _ in range(UPDATES):
                window = [case.make_batch(rows) for rows in sizes]
                training.accumulate(model, window)
                training.update(model, optimizer)
    except torch.OutOfMemoryError:
        return False
    return True


def by_accelerate(
    case: Case, budget: float, effective: int, device: torch.device
) -> Search:
    """`find_executable_batch_size`, and as many micro-batches as fill the batch.

    The accumulation steps are `effective // micro_batch`, as in Accelerate's example
    https://github.com/huggingface/accelerate/blob/main/examples/by_feature/automatic_gradient_accumulation.py
    """
    from accelerate.utils import find_executable_batch_size

    search = Search()

    @find_executable_batch_size(starting_batch_size=effective)
    def train(micro_batch: int) -> int:
        search.tried.append(micro_batch)
        steps = effective // micro_batch
        # Its own limit each time, as after a restart: the function builds all anew.
        if not fits(case, [micro_batch] * steps, budget, device):
            raise torch.OutOfMemoryError("Tried to train: out of memory.")
        return micro_batch * steps

    with _timed(search):
        search.effective = train()
    return search


def by_trainer(
    case: Case, budget: float, effective: int, device: torch.device
) -> Search:
    """`Trainer(auto_find_batch_size=True)` with the effective batch as its batch."""
    import transformers

    search = Search()
    rows = case.make_batch(effective)
    examples = [{n: t[i] for n, t in rows.items()} for i in range(effective)] * UPDATES
    model = build(case, device)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, undisturbed():
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=effective,
            auto_find_batch_size=True,
            num_train_epochs=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=device.type == "cpu",
        )
        trainer = transformers.Trainer(
            model=model, args=arguments, train_dataset=examples
        )
        trainer.log = lambda *_: None
        own = trainer.get_train_dataloader

        def loader() -> DataLoader:  # made once a try
            search.tried.append(trainer._train_batch_size)
            return own()

        trainer.get_train_dataloader = loader
        with _timed(search), memory.limit(budget, model):
            trainer.train()
            steps = trainer.args.gradient_accumulation_steps
            search.effective = search.tried[-1] * steps
    return search


def build(case: Case, device: torch.device) -> torch.nn.Module:
    """The model of a case, anew, in training mode."""
    given = isinstance(case.model, torch.nn.Module)
    model = copy.deepcopy(case.model) if given else case.model()
    return model.to(device).train()


@contextmanager
def _timed(search: Search) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    except (RuntimeError, ValueError) as error:
        # Accelerate ends with "No executable batch size found, reached zero."
        if "reached zero" not in str(error):
            raise
    finally:
        search.seconds = time.perf_counter() - start
