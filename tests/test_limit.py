"""The memory limit: where it raises, what it says, and that nothing is left of it."""

import math
import weakref

import pytest
import torch
from accelerate.utils import find_executable_batch_size
from torch import nn

from helpers import memory, models, training
from tests.test_meter import adamw, allocated, step, tokens

WIDE, HIDDEN = 16, 32


class Phases(nn.Module):
    """A small network that writes down how far a step has come."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(
            nn.Linear(WIDE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN)
        )
        self.phase = "before"
        self.made = []  # a weak reference to all that the layers gave out

    def forward(self, x):
        self.phase = "forward"
        for layer in self.body:
            x = layer(x)
            self.made.append(weakref.ref(x.untyped_storage()))
        return x

    def loss(self, x):
        return self(x).square().mean()

    def step(self, optimizer, x):
        loss = self.loss(x)
        self.phase = "backward"
        loss.backward()
        self.phase = "update"
        optimizer.step()
        optimizer.zero_grad()
        self.phase = "done"


def raises():
    return pytest.raises(torch.OutOfMemoryError)


def prepared(rows=64):
    """A network, its optimizer with its state, and a batch."""
    net, x = Phases(), torch.randn(rows, WIDE)
    optimizer = adamw(net)
    net.step(optimizer, x)
    return net, optimizer, x


def peak_of(call, *watched):
    with memory.Meter(*watched) as meter:
        call()
    return meter.peak


def at_rest(*watched):
    return peak_of(lambda: None, *watched)


def fails(net, optimizer, x, budget):
    """Run a step under a budget that does not suffice; the error, with its frames."""
    net.made.clear()
    with raises() as caught, memory.limit(budget, net, optimizer):
        net.step(optimizer, x)
    return caught.value


@pytest.mark.parametrize("rows", [2, 8, 64])
def test_the_peak_itself_is_enough_and_one_byte_less_is_not(rows):
    net, optimizer, x = prepared(rows)
    peak = peak_of(lambda: net.step(optimizer, x), net, optimizer)
    with memory.limit(peak, net, optimizer) as meter:
        net.step(optimizer, x)
    assert meter.peak == peak
    fails(net, optimizer, x, peak - 1)


def test_it_can_come_in_each_phase_of_a_step():
    net, optimizer, x = prepared(64)
    held, rows = at_rest(net, optimizer), x.nbytes
    forward = peak_of(lambda: net.loss(x), net, optimizer)
    assert fails(net, optimizer, x, held + rows) and net.phase == "forward"
    assert fails(net, optimizer, x, forward) and net.phase == "backward"

    # With two rows the update, which makes temporary tensors, is the highest point.
    net, optimizer, x = prepared(2)
    both = peak_of(lambda: net.loss(x).backward(), net, optimizer)
    optimizer.zero_grad()
    text = str(fails(net, optimizer, x, both))
    assert net.phase == "update" and len(text.splitlines()) == 2
    assert "half updated: make both anew" in text


def test_a_first_update_has_no_room_for_its_state():
    net, x = Phases(), torch.randn(2, WIDE)
    optimizer = adamw(net)
    both = peak_of(lambda: net.loss(x).backward(), net, optimizer)
    optimizer.zero_grad()
    fails(net, optimizer, x, both)
    assert net.phase == "update"


@pytest.mark.parametrize("rows", [64, 2])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.45, 0.6, 0.8, 0.95, 0.999])
def test_nothing_is_left_of_a_step_that_failed(rows, share):
    net, optimizer, x = prepared(rows)
    held = at_rest(net, optimizer)
    peak = peak_of(lambda: net.step(optimizer, x), net, optimizer)
    budget = int(held + share * (peak - held))
    errors = []  # kept, as a notebook keeps the last error with its traceback
    _, left = allocated(lambda: errors.append(fails(net, optimizer, x, budget)))
    assert errors[0].__traceback__ and left == 0  # the allocator has it all back
    assert at_rest(net, optimizer) == held
    assert net.made or share < 0.1
    assert all(made() is None for made in net.made)
    assert all(p.grad is None for p in net.parameters())
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None
    assert not net._forward_hooks and not net._forward_pre_hooks
    if rows == 64 and share > 0.3:  # and so the next smaller batch has room
        with memory.limit(budget, net, optimizer):
            net.step(optimizer, x[:16])
        assert net.phase == "done"


def test_a_step_after_the_failure_is_the_step_without_it():
    def after(attempt_first):
        net, optimizer, x = prepared(64)
        if attempt_first:
            forward = peak_of(lambda: net.loss(x), net, optimizer)
            fails(net, optimizer, x, forward)
            assert net.phase == "backward"
        net.step(optimizer, x[:8])
        return list(net.parameters())

    assert all(map(torch.equal, after(True), after(False)))


def test_other_errors_pass_and_leave_the_gradients():
    net, optimizer, x = prepared(4)
    with pytest.raises(ZeroDivisionError), memory.limit(2**20, net, optimizer):
        net(x).sum().backward()
        raise ZeroDivisionError
    assert all(p.grad is not None for p in net.parameters())
    with memory.limit(2**20, net, optimizer) as meter:
        net(x)
    assert meter.live["gradients"] == sum(p.nbytes for p in net.parameters())


def test_accelerate_finds_the_largest_batch_that_fits():
    model, tried = models.classifier(), []
    optimizer = adamw(model)
    step(model, optimizer, tokens(1))

    def peak(rows):
        batch = tokens(rows)
        return peak_of(lambda: step(model, optimizer, batch), model, optimizer)

    budget = peak(14)

    @find_executable_batch_size(starting_batch_size=32)
    def attempt(rows):
        tried.append(rows)
        with memory.limit(budget, model, optimizer):
            step(model, optimizer, tokens(rows))
        return rows

    assert attempt() == tried[-1] and len(tried) > 5
    assert tried[-1] == max(rows for rows in tried if peak(rows) <= budget)


def test_the_error_says_what_was_asked_in_use_and_allowed():
    net = nn.Linear(1024, 1024, bias=False)  # 4 MiB
    x = torch.randn(256, 1024)  # 1 MiB, as is what comes out
    with raises() as caught, memory.limit(6.5 * memory.MiB, net):
        net(net(x))
    assert str(caught.value) == (
        "Training is out of memory. It asked for 1.00 MiB more while 6.00 MiB were in "
        "use; the limit is 6.50 MiB."
    )
    assert isinstance(caught.value, RuntimeError)
    assert type(caught.value) is torch.cuda.OutOfMemoryError


def test_training_under_it_names_the_micro_batch_and_a_way_out():
    model, batch = models.classifier(), tokens(32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with raises() as caught, memory.limit(2 * memory.MiB, model, optimizer):
        training.train(model, [batch], optimizer=optimizer, progress=False)
    text = str(caught.value)
    assert "Micro-batch 1 of 1" in text and "Try micro-batches of 16 rows" in text
    assert "asked for" in text and "the limit is 2.00 MiB" in text


@pytest.mark.parametrize("wrong", [0, -1, -0.5, math.nan, math.inf, -math.inf])
def test_a_budget_that_cannot_be_is_refused_in_a_sentence(wrong):
    with pytest.raises(ValueError, match=r"^\S+ came; a limit is .* above 0, .*\.$"):
        memory.limit(wrong, nn.Linear(2, 2)).__enter__()


@pytest.mark.parametrize("wrong", ["160 MiB", None, True, [1]])
def test_a_budget_that_is_no_number_is_refused_in_a_sentence(wrong):
    with pytest.raises(TypeError) as caught:
        memory.limit(wrong, nn.Linear(2, 2)).__enter__()
    assert str(caught.value).startswith(f"{wrong!r} came; a limit is a number of bytes")


def test_a_budget_below_what_is_held_is_refused_and_leaves_no_trace():
    net, optimizer, _ = prepared()
    held = at_rest(net, optimizer)
    with pytest.raises(ValueError, match=r"model, its gradients and the optimizer"):
        memory.limit(held - 1, net, optimizer).__enter__()
    assert not net._forward_hooks
    with memory.limit(held, net, optimizer):  # no room, but nothing asked
        pass
    with memory.limit(held + 0.5, net, optimizer):  # a fraction of a byte is no byte
        pass
