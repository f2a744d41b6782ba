import torch

from helpers import equivalence, training
from tests import toys


def watched(loop, batches, k=4):
    net = toys.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with equivalence.watch(net, optimizer, training.windows(batches, k)) as seen:
        loop(net, batches, optimizer, k)
    assert not optimizer._optimizer_step_pre_hooks
    return seen


def slides(net, batches, optimizer, k):
    for i, batch in enumerate(batches):
        (net(**batch).loss / k).backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()


def repaired(net, batches, optimizer, k):
    slides(net, batches, optimizer, k)
    optimizer.step()


def every(net, batches, optimizer, k):
    slides(net, batches, optimizer, 1)


def test_a_window_without_an_update_is_named():
    seen = watched(slides, toys.cut(toys.rows(20), 2))
    assert len(seen.comparisons) == 2 and seen.windows == 3 and not seen.exact
    assert str(seen).splitlines()[2] == "window 3: no update"


def test_the_short_window_divided_by_k_shows_as_its_ratio():
    seen = watched(repaired, toys.cut(toys.rows(20), 2))
    assert [round(r, 12) for r in seen.ratios] == [1, 1, 0.5]
    assert "0.5 times as long" in str(seen) and not seen.exact


def test_updates_beyond_the_windows_are_counted():
    seen = watched(every, toys.cut(toys.rows(20), 2))
    assert seen.extra == 7 and "7 more updates" in repr(seen)


def test_full_windows_are_exact():
    assert watched(slides, toys.cut(toys.rows(16), 2)).exact
