"""The simulated update: its arithmetic, its bounds, its sliders and its figure."""

from __future__ import annotations

from dataclasses import fields, replace

import ipywidgets
import pytest

from helpers import communication, communication_sliders, plots
from helpers.communication import Setting, all_reduce_seconds, sent_bytes, update
from helpers.plots import widgets

BOTH = pytest.mark.parametrize("each", [True, False])


def test_a_ring_by_hand():
    """Four processes pass quarters on: three steps to add up, three to hand round."""
    setting = Setting(node_bandwidth=100, node_latency=0.5, gpus_per_node=4)
    steps = 2 * 3
    assert sent_bytes(4, 80) == steps * 80 / 4
    seconds = all_reduce_seconds(4, 80, setting)
    assert seconds == pytest.approx(steps * (80 / 4 / 100 + 0.5))
    assert sent_bytes(1, 80) == all_reduce_seconds(1, 80, setting) == 0


def test_steps_between_nodes_take_the_latency_of_the_network():
    setting = Setting(
        gpus_per_node=2, node_bandwidth=100, network_bandwidth=10,
        node_latency=1, network_latency=1000,
    )  # fmt: skip
    assert all_reduce_seconds(2, 20, setting) == 20 / 100 + 2 * 1
    # Eight processes on four nodes: 14 steps, 6 of them between nodes.
    assert all_reduce_seconds(8, 80, setting) == 140 / 10 + 8 * 1 + 6 * 1000


@BOTH
def test_alone_there_is_nothing_to_wait_for(each):
    alone = update(1, Setting(), every_micro_batch=each)
    assert alone.sent_bytes == alone.waiting_seconds == 0 and alone.efficiency == 1


def test_no_sync_divides_all_that_is_exchanged_by_k():
    for k in (1, 2, 16):
        setting = Setting(accumulation_steps=k, buckets=3)
        each = update(64, setting, every_micro_batch=True)
        once = update(64, setting, every_micro_batch=False)
        assert once.compute_seconds == each.compute_seconds
        for name in ("exchanges", "reduced_bytes", "sent_bytes", "waiting_seconds"):
            assert getattr(each, name) == pytest.approx(k * getattr(once, name))


def test_overlap_hides_at_most_the_backward():
    waits = [
        update(64, Setting(overlap=share), every_micro_batch=True).waiting_seconds
        for share in (0, 0.5, 1)
    ]
    hidden = Setting().accumulation_steps * Setting().micro_batch_seconds * 2 / 3
    assert waits[0] - waits[2] == pytest.approx(min(hidden, waits[0]))
    assert waits[1] == pytest.approx((waits[0] + waits[2]) / 2)


def test_the_simulation_covers_1_to_4096_and_only_grows():
    found = communication.simulate()
    assert communication.PROCESSES[0] == 1 and communication.PROCESSES[-1] == 4096
    for updates in found.values():
        times = [u.seconds for u in updates]
        assert times == sorted(times) and len(times) == 13


@pytest.mark.parametrize("name", [field.name for field in fields(Setting)])
def test_every_constant_has_a_slider_a_source_and_bounds(name):
    assert name in communication_sliders.SLIDERS
    assert name in Setting.__doc__
    with pytest.raises(ValueError, match=f"{name} is -1; it must be above 0"):
        replace(Setting(), **{name: -1})
    low, high, _ = communication_sliders.SLIDERS[name]
    assert low <= getattr(Setting(), name) <= high


def test_bad_numbers_are_refused():
    with pytest.raises(ValueError, match="shares, from 0 to 1"):
        Setting(overlap=1.5)
    with pytest.raises(ValueError, match="processes is 0; give a whole number"):
        update(0, Setting(), every_micro_batch=True)


@pytest.fixture
def drawn(monkeypatch):
    calls = []
    monkeypatch.setattr(
        plots, "update_times", lambda *a, **named: calls.append((a, named))
    )
    return calls


def test_without_a_notebook_there_is_the_figure(drawn):
    communication_sliders.explore()
    (processes, seconds), words = drawn[0]
    assert len(drawn) == 1 and len(processes) == 13 and len(seconds) == 2
    assert "4096 GPUs: every micro-batch 3.7" in words["alt"]


def test_a_slider_that_moves_draws_anew(drawn, monkeypatch):
    shown, pictures = [], iter(range(9))
    monkeypatch.setattr(widgets, "ipywidgets", lambda: ipywidgets)
    monkeypatch.setattr(widgets, "show", lambda *both: shown.append(both))
    monkeypatch.setattr(
        widgets, "caught", lambda draw: draw() or {"text/html": str(next(pictures))}
    )
    communication_sliders.explore()
    box, figure = shown[0]
    *sliders, picture = box.children
    assert figure == {"text/html": "0"} and picture.value == "0"
    assert len(sliders) == len(fields(Setting)) and len(drawn) == 1
    named = {slider.description: slider for slider in sliders}
    assert isinstance(named["network bandwidth"], ipywidgets.FloatLogSlider)
    named["network bandwidth"].value = 1e9
    named["accumulation steps"].value = 2
    assert len(drawn) == 3 and picture.value == "2"
    wanted = Setting(network_bandwidth=1e9, accumulation_steps=2)
    assert drawn[-1][0][1]["once a window"][-1] == pytest.approx(
        update(4096, wanted, every_micro_batch=False).seconds
    )


def test_a_widget_is_shown_with_the_figure_that_it_begins_with(capsys):
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    InteractiveShell.instance()
    try:
        figure = widgets.caught(communication_sliders.draw)
        slider = ipywidgets.IntSlider()
        with capture_output() as held:
            widgets.show(slider, figure)
        (shown,) = (output.data for output in held.outputs)
        view = shown.pop("application/vnd.jupyter.widget-view+json")
        assert view["model_id"] == slider.model_id
        assert shown == figure and "4096 GPUs" in figure["text/html"]
        assert widgets.ipywidgets() is None  # a shell, and no notebook
    finally:
        InteractiveShell.clear_instance()


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_a_ring_that_is_played_sums_all_and_sends_what_the_formula_says(processes):
    from helpers.checks.lesson_06_ring import ring

    sent, summed = ring(processes, 240)
    assert summed and sent == sent_bytes(processes, 240)
