"""The shared loop on two real processes, and what it exchanges."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from torch.utils.data import DataLoader

from helpers import communication, launch, processes
from tests import several, toys

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or sys.platform == "win32",
    reason="two processes need torch.distributed with gloo",
)
EXACT = 1e-12


@pytest.fixture(scope="module")
def both():
    """Everything that ends by itself, in one run: starting one costs seconds."""
    return launch.run(
        several.begin,
        several.even_and_uneven,
        several.masked,
        several.evaluated,
        several.without_a_target,
        several.prepared_by_accelerate,
        several.exchanges,
        several.accumulate_exchanges,
        several.schedules,
        several.whose_rows,
        several.joined,
        several.passes_silently,
        several.uneven,  # the last one: it fails when the process that is through ends
        limit=240,
        show=False,
        check=False,
    )


def each(run, key):
    """What both processes reported under a name: [(by rank 0, by rank 1), ...]."""
    own = [
        [r for r in run.reports if r["rank"] == rank and key in r] for rank in (0, 1)
    ]
    assert own[0], run.failure
    return list(zip(*own, strict=True))


def test_two_processes_equal_one_for_even_and_uneven_data(both):
    pairs = each(both, "mine")
    assert len(pairs) == len(several.SHAPES) + len(several.MASKED)
    for pair in pairs:
        for found in pair:
            assert found["apart"] < EXACT and found["histories"] < EXACT, found
    given = [tuple(found["mine"] for found in pair) for pair in pairs]
    assert {(8, 8), (9, 8), (5, 4), (1, 0)} <= {*given}  # even, one fewer, none left


def test_one_all_reduce_an_update_also_where_a_process_has_no_micro_batch(both):
    for pair in each(both, "mine"):
        for found in pair:
            assert found["all_reduces"] == found["updates"], found


def test_evaluation_is_over_all_processes(both):
    for pair in each(both, "one"):
        for found in pair:
            for one, two in zip(found["one"], found["two"], strict=True):
                assert one == pytest.approx(two, abs=EXACT) and "f1" in one


def test_an_error_that_concerns_all_reaches_all(both):
    assert all("has a target" in f["no_target"] for f in each(both, "no_target")[0])
    assert all("gave no micro-batch" in f["no_row"] for f in each(both, "no_row")[0])


def test_a_model_that_accelerate_prepared_is_exact_too(both):
    pairs = each(both, "world")
    assert len(pairs) == 3
    for pair in pairs:
        for found in pair:
            assert found["world"] == 2
            assert found["apart"] < EXACT and found["histories"] < EXACT, found


def test_all_reduces_of_a_window_with_and_without_no_sync(both):
    found = {pair[0]["way"]: pair[0] for pair in each(both, "way")}
    assert all(way["error"] < EXACT for way in found.values())  # costly, never wrong
    for name, times in {
        "plain": 4,
        "held_back": 1,
        "held_back_in_backward": 4,
        "held_back_in_forward": 1,
        "shared": 1,
    }.items():
        way = found[name]
        # After its first exchange DDP cuts its buckets anew, here in two.
        assert [calls for calls, _ in way["per_window"][1:]] == [2 * times] * 2
        sent = [bytes_ for _, bytes_ in way["per_window"]]
        assert sent == [times * way["gradient_bytes"]] * 3
    assert each(both, "accumulate_calls")[0][0]["accumulate_calls"] == 1


@pytest.mark.parametrize(("way", "exchanged"), [("plain", True), ("held_back", False)])
def test_the_simulation_counts_what_two_processes_were_seen_to_send(
    both, way, exchanged
):
    found = next(one for one, _ in each(both, "way") if one["way"] == way)
    setting = communication.Setting(
        weights=found["gradient_bytes"] / 8,
        bytes_per_weight=8,
        accumulation_steps=4,
        buckets=2,
    )
    simulated = communication.update(2, setting, every_micro_batch=exchanged)
    measured = tuple(found["per_window"][-1])
    assert measured == (simulated.exchanges, simulated.reduced_bytes)


def test_a_prepared_schedule_steps_once_for_each_process(both):
    for pair in each(both, "schedule"):
        for found in pair:
            steps = 2 if found["schedule"] == "prepared" else 1
            assert found["rates"] == [1 - steps / 4, 1 - 2 * steps / 4]


def test_which_rows_are_given_twice(both):
    given = {pair[0]["rows"]: [f["given"] for f in pair] for pair in each(both, "rows")}
    once = [[0, 2, 4], [1, 3]]
    assert given["share"] == given["even_batches=False"] == once
    padded = [[0, 2, 4], [1, 3, 0]]
    assert given["sampler"] == given["even_batches=True"] == padded


def test_join_divides_by_processes_that_are_through(both):
    (one, other) = each(both, "join_ratios")[0]
    assert one["join_ratios"] == pytest.approx([1, 1, 0.5])
    assert other["join_ratios"] == pytest.approx([1, 1])


def test_processes_in_different_passes_do_not_notice(both):
    (one, other) = each(both, "passes")[0]
    assert one["passes"] != other["passes"]


def test_a_process_left_alone_in_its_backward_fails_when_the_other_ends(both):
    last = [r["micro_batch"] for r in both.reports if "micro_batch" in r]
    assert sorted(last) == [1, 1, 2, 2]
    assert "Process 0: RuntimeError" in both.failure
    assert "model(**batch).loss.backward()" in both.failure
    assert "Process 1" not in both.failure


def test_and_waits_without_end_while_the_other_goes_on():
    steps = (several.begin, several.uneven, several.does_something_else)
    run = launch.run(*steps, limit=120, silence=3, show=False, check=False)
    zero, one = run.failure.splitlines()[1:3]
    assert zero.startswith("Process 0: waited in line")
    assert zero.endswith("model(**batch).loss.backward()")
    assert one.endswith("time.sleep(600)")
    assert len(run.reports) == 4


def test_alone_nothing_is_exchanged(monkeypatch):
    monkeypatch.setattr(torch.distributed, "all_reduce", None)
    model = toys.model()
    assert processes.total(model, 3) == 3 and processes.size(model) == 1
    assert processes.bare(model) is model and processes.first(model)
    assert processes.gather(model, [1]) == [1]
    processes.take_part(model)
    assert list(processes.together(model, [[1], [2]])) == [[1], [2]]


@pytest.mark.parametrize("rows", [0, 1, 7, 8])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_shares_are_the_whole(rows, size):
    loader = DataLoader(range(rows), batch_size=2)
    shares = [processes.share(loader, rank, size) for rank in range(size)]
    batches = [[b.tolist() for b in share] for share in shares]
    assert [len(share) for share in shares] == [len(own) for own in batches]
    dealt = [own[i] for i in range(rows) for own in batches if i < len(own)]
    assert dealt == [b.tolist() for b in loader]


def test_shares_of_a_shuffled_loader_follow_its_order():
    def loader():
        draws = torch.Generator().manual_seed(5)
        return DataLoader(range(9), batch_size=2, shuffle=True, generator=draws)

    whole, *shares = loader(), *(processes.share(loader(), r, 2) for r in (0, 1))
    for _ in range(2):  # epochs
        first, second = ([b.tolist() for b in share] for share in shares)
        batches = [b.tolist() for b in whole]
        assert (first, second) == (batches[::2], batches[1::2])


def test_what_cannot_be_shared_or_started_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="each process would draw an order of its own"):
        processes.share(DataLoader(range(4), shuffle=True), 0, 2)
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(RuntimeError, match="not started with others"):
        processes.start()


def test_a_report_is_one_line_of_json(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "3")
    processes.report(loss=0.5)
    line = capsys.readouterr().out
    assert line.startswith("@report ") and line.count("\n") == 1
    assert json.loads(line.removeprefix("@report ")) == {"rank": 3, "loss": 0.5}


@pytest.mark.parametrize(
    ("way", "held"),
    [
        (several.plain, 0),
        (several.held_back, 3),
        (several.held_back_in_backward, 0),
        (several.held_back_in_forward, 3),
    ],
)
def test_the_check_of_lesson_6_sees_the_exchanges_that_ddp_makes(
    monkeypatch, both, way, held
):
    """Without processes: which backward passes exchange, as counted in real ones."""
    from helpers.checks.lesson_06_no_sync import OneProcess

    monkeypatch.setattr(processes, "several", lambda model: True)
    model = OneProcess(toys.model())
    way(model, toys.cut(toys.rows(8), 2))
    assert model.exchanged == [False] * held + [True] * (4 - held)
    found = next(one for one, _ in each(both, "way") if one["way"] == way.__name__)
    in_buckets = [calls for calls, _ in found["per_window"][1:]]
    assert in_buckets == [2 * sum(model.exchanged)] * 2


def test_a_repaired_trainer_makes_both_predictions_of_its_ratio_right():
    from helpers.checks import lesson_06

    for guess in (1, 2):
        message = lesson_06.world_ratio.judge(guess, 1.0000001)
        assert message.state == "correct" and "ratio is 1" in "".join(message.lines)
    assert lesson_06.world_ratio.judge(4, 1.0).state == "not yet"
