"""The meter against arithmetic, and against two measures that are not its own."""

import gc
import weakref
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from helpers import memory, models

ROWS, WIDE, HIDDEN, OUT = 64, 16, 32, 8
WEIGHTS = WIDE * HIDDEN + HIDDEN + HIDDEN * OUT + OUT
FLOAT = 4
# What backward needs of the network below: the input, the result of ReLU (for the
# second layer too), and the output, for the squared loss. Not the first layer's output.
SAVED = ROWS * (WIDE + HIDDEN + OUT) * FLOAT


def network(act=nn.ReLU):
    return nn.Sequential(nn.Linear(WIDE, HIDDEN), act(), nn.Linear(HIDDEN, OUT))


def adamw(net):
    return torch.optim.AdamW(net.parameters())


def loss_of(net, x):
    return net(**x).loss if isinstance(x, dict) else net(x).square().mean()


def cut(x, k):
    if not isinstance(x, dict):
        return x.chunk(k)
    parts = zip(*(t.chunk(k) for t in x.values()), strict=True)
    return [dict(zip(x, part, strict=True)) for part in parts]


def step(net, optimizer, x, k=1):
    for part in cut(x, k):
        (loss_of(net, part) / k).backward()
    optimizer.step()
    optimizer.zero_grad()


def tokens(rows, length=24):
    """A batch for the course's classifier, every row equally long."""
    ids = torch.arange(rows * length).reshape(rows, length) % 400 + 5
    mask, labels = torch.ones_like(ids), torch.arange(rows) % 2
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def allocated(call):
    """Bytes that the allocator gave out, at the peak and at the end (profiler)."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        call()
    events = seen.profiler.kineto_results.events()
    taken = [event for event in events if event.name() == "[memory]"]
    now = peak = 0
    for event in sorted(taken, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak, now


def sizes(*tensors):
    stores = [tensor.untyped_storage() for tensor in tensors]
    return {store.data_ptr(): store.nbytes() for store in stores}


def test_every_kind_is_exact_at_every_stage_of_a_step():
    net, x = network(), torch.randn(ROWS, WIDE)
    optimizer = adamw(net)
    with memory.Meter(net, optimizer) as meter:
        assert list(meter.live.values()) == [WEIGHTS * FLOAT, 0, 0, 0, 0]
        loss = loss_of(net, x)
        assert meter.live["activations"] == SAVED + FLOAT  # and the loss itself
        assert meter.live["gradients"] == meter.live["temporary"] == 0
        loss.backward()
        assert meter.live["gradients"] == WEIGHTS * FLOAT
        assert meter.live["activations"] == x.nbytes + FLOAT  # the batch and the loss
        optimizer.step()
        state = 2 * WEIGHTS * FLOAT + 4 * FLOAT  # and a counter for each parameter
        assert meter.live["optimizer state"] == state
        optimizer.zero_grad(set_to_none=False)
        assert meter.live["gradients"] == WEIGHTS * FLOAT
        optimizer.zero_grad()
        del loss
    assert list(meter.live.values()) == [WEIGHTS * FLOAT, 0, state, x.nbytes, 0]


def test_a_model_that_is_gone_holds_nothing():
    net, x = network(), torch.randn(ROWS, WIDE)
    optimizer = adamw(net)
    with memory.Meter(net, optimizer) as meter:
        step(net, optimizer, x)
        gone = weakref.ref(net)
        del net, optimizer, x
        gc.collect()
        assert gone() is None and sum(meter.live.values()) == 0
    assert meter.peak > SAVED  # the figures stay
    with pytest.raises(RuntimeError, match="model of this meter is gone"):
        meter.__enter__()


@pytest.mark.parametrize(("act", "extra"), [(nn.Tanh, 0), (nn.GELU, ROWS * HIDDEN)])
def test_what_a_layer_keeps_depends_on_the_layer(act, extra):
    net, x = network(act), torch.randn(ROWS, WIDE)
    with memory.Meter(net) as meter:
        out = net(x)  # GELU keeps its input as well, Tanh and ReLU only their result
        assert meter.live["activations"] == SAVED + extra * FLOAT and out.requires_grad


def test_activations_are_so_many_bytes_a_row():
    def at_end_of_forward(rows):
        model, batch = models.classifier(), tokens(rows)
        with memory.Meter(model) as meter:
            loss = loss_of(model, batch)
            return meter.live["activations"] if loss.requires_grad else None

    at = {rows: at_end_of_forward(rows) for rows in (64, 32, 16, 8)}
    per_row = (at[16] - at[8]) // 8
    assert at[32] - at[16] == 16 * per_row and at[64] - at[32] == 32 * per_row
    assert at[8] - 8 * per_row < 0.001 * at[8]  # little does not depend on the rows


@pytest.mark.parametrize(("rows", "k"), [(64, 1), (64, 4), (8, 1)])
@pytest.mark.parametrize("make", [network, models.classifier])
def test_the_peak_of_a_step_is_the_allocators(make, rows, k):
    net, batch = make(), torch.randn(rows, WIDE) if make is network else tokens(rows)
    optimizer = adamw(net)
    step(net, optimizer, batch, k)
    with memory.Meter(net, optimizer) as meter:
        step(net, optimizer, batch, k)
    above, left = allocated(lambda: step(net, optimizer, batch, k))
    # Where the peak is in the update, AdamW's operations make a scalar within
    # themselves, which no meter of tensors sees. In forward and backward: nothing.
    scratch = sum(meter.live.values()) + above - meter.peak
    assert left == 0 and scratch == (12 if make is network and rows == 8 else 0)


def test_activations_of_the_classifier_are_what_autograd_saves():
    model, batch = models.classifier(), tokens(16)
    with memory.Meter(model) as meter:
        out = model(**batch)
        activations = meter.live["activations"]
    kept = sizes(*batch.values())
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: kept.update(sizes(tensor)) or tensor, lambda tensor: tensor
    ):
        out = model(**batch)
    kept |= sizes(out.loss, out.logits)
    for address in sizes(*model.parameters(), *model.buffers()):
        kept.pop(address, None)
    assert activations == sum(kept.values())


def test_more_accumulation_steps_cost_one_copy_of_the_gradients_and_no_more():
    def peak(k):
        net, x = network(), torch.randn(ROWS * k, WIDE)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with memory.Meter(net, optimizer) as meter:
            step(net, optimizer, x, k)
        return meter.peak - x.nbytes

    one, two = peak(1), peak(2)
    assert one < two <= one + WEIGHTS * FLOAT
    assert peak(3) == peak(8) == peak(16) == two


def test_views_changes_in_place_and_tied_weights_are_counted_once():
    net, x = nn.ModuleList(nn.Linear(WIDE, WIDE) for _ in "ab"), torch.randn(9, WIDE)
    net[1].weight = net[0].weight
    with memory.Meter(net) as meter:
        assert meter.live["parameters"] == (WIDE * WIDE + 2 * WIDE) * FLOAT
        hidden = net[0](x).relu_().view(3, -1).flatten().view(9, WIDE).t().t()
        out = net[1](hidden).add_(1.0)[:]
        large = out[:1, :1].expand(1000, 1000)  # a view as well
        assert meter.live["activations"] == 3 * 9 * WIDE * FLOAT  # x, hidden, out
    assert large.nbytes > 10**6


def test_measuring_changes_no_bit_of_the_result():
    def run(around):
        torch.manual_seed(3)
        model, batch = models.classifier(dropout=0.1).train(), tokens(8)
        optimizer = adamw(model)
        with around(model, optimizer):
            loss = loss_of(model, batch)
            loss.backward()
            optimizer.step()
        return [loss, *model.parameters(), *(p.grad for p in model.parameters())]

    assert all(map(torch.equal, run(memory.Meter), run(lambda *_: nullcontext())))


def test_meters_nest_and_one_meter_measures_anew_each_time():
    net, x = network(), torch.randn(ROWS, WIDE)
    optimizer = adamw(net)
    outer, inner = memory.Meter(net, optimizer), memory.Meter(net, optimizer)
    with outer:
        step(net, optimizer, x)
        with inner:
            step(net, optimizer, x[:8])
        with pytest.raises(RuntimeError, match="measuring already"):
            outer.__enter__()
    small = inner.peak
    assert small < outer.peak and len(inner.timeline) < len(outer.timeline)
    with inner:
        pass  # anew: neither the peak nor the timeline of before
    assert small > inner.peak == sum(inner.live.values()) and len(inner.timeline) == 1


def test_the_peak_starts_anew_after_a_reset():
    net, x = network(), torch.randn(ROWS, WIDE)
    optimizer = adamw(net)
    with memory.Meter(net, optimizer) as meter:
        step(net, optimizer, x)
        high = meter.peak
        meter.reset_peak()
        assert meter.peak == sum(meter.live.values()) == meter.timeline[0] < high
        step(net, optimizer, x)
        assert meter.peak > high  # the optimizer state is there from the start
    by_kind = meter.timeline_by_kind
    assert [sum(row) for row in zip(*by_kind.values(), strict=True)] == meter.timeline
    assert max(meter.timeline) == meter.peak == sum(meter.at_peak.values())


def test_the_table_shows_every_kind_and_the_peak():
    with memory.Meter(net := nn.Linear(1024, 1024, bias=False)) as meter:
        net(torch.ones(256, 1024)).sum().backward()
    lines = repr(meter).splitlines()
    shown = {line[:24].strip(): line[24:].split() for line in lines[1:]}
    assert list(shown) == [*memory.KINDS, "peak"]
    assert shown["parameters"][0] == "4.00"
    page = meter._repr_html_()
    for kind, size in meter.at_peak.items():
        assert shown[kind] == [f"{size / 2**20:.2f}", f"{size / meter.peak:.0%}"]
        assert f">{kind}</th><td>{size / 2**20:.2f}</td>" in page
    assert f"<td>{meter.peak / 2**20:.2f}</td><td>100%</td>" in page


def test_what_is_no_model_or_optimizer_is_refused_in_a_sentence():
    with pytest.raises(TypeError, match=r"needs a model \(torch.nn.Module\); str came"):
        memory.Meter("net")
    with pytest.raises(TypeError, match=r"is the optimizer, or nothing; Linear came"):
        memory.Meter(nn.Linear(1, 1), nn.Linear(1, 1))
