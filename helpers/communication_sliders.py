"""The simulated update as a figure, and with a slider for each of its constants."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from . import plots
from .communication import PROCESSES, Setting, simulate
from .plots import widgets


def draw(setting: Setting | None = None) -> None:
    """The seconds of an update over the number of GPUs, as a figure."""
    setting = setting or Setting()
    found = simulate(setting)
    last = {name: updates[-1] for name, updates in found.items()}
    plots.update_times(
        PROCESSES,
        {name: [u.seconds for u in updates] for name, updates in found.items()},
        compute=found["once a window"][0].compute_seconds,
        alt="Seconds of one update over the number of GPUs, simulated. At "
        f"{PROCESSES[-1]} GPUs: "
        + ", ".join(f"{name} {update.seconds:.2f}" for name, update in last.items())
        + f"; computing alone takes {last['once a window'].compute_seconds:.2f}.",
        caption=f"Simulated: one update of {setting.accumulation_steps} micro-batches.",
    )


# Of each slider: smallest, largest, and step, or "log" for a logarithmic one.
SLIDERS = {
    "weights": (1e7, 1e11, "log"),
    "bytes_per_weight": (2, 4, 2),
    "tokens": (2**8, 2**17, "log"),
    "accumulation_steps": (1, 64, 1),
    "peak_flops": (1e13, 3e15, "log"),
    "utilisation": (0.1, 1.0, 0.05),
    "gpus_per_node": (1, 16, 1),
    "node_bandwidth": (1e9, 1e12, "log"),
    "network_bandwidth": (1e8, 1e12, "log"),
    "node_latency": (1e-7, 1e-3, "log"),
    "network_latency": (1e-7, 1e-2, "log"),
    "buckets": (1, 256, 1),
    "overlap": (0.0, 1.0, 0.05),
}


def explore(setting: Setting | None = None) -> None:
    """The figure with a slider for every constant; without ipywidgets the figure.

    Where no widgets run, as on a page of GitHub's, the first figure is shown.
    """
    setting = setting or Setting()
    ipywidgets = widgets.ipywidgets()
    if ipywidgets is None:
        draw(setting)
        return
    sliders = {name: _slider(ipywidgets, name, setting) for name in SLIDERS}
    # An HTML widget and no Output: it is replaced at once, so nothing jumps.
    picture = ipywidgets.HTML()

    def redraw(*_: object) -> dict[str, Any]:
        values = {name: slider.value for name, slider in sliders.items()}
        figure = widgets.caught(lambda: draw(replace(setting, **values)))
        picture.value = figure["text/html"]
        return figure

    for slider in sliders.values():
        slider.observe(redraw, names="value")
    widgets.show(ipywidgets.VBox([*sliders.values(), picture]), redraw())


def _slider(ipywidgets, name: str, setting: Setting):
    low, high, step = SLIDERS[name]
    value = getattr(setting, name)
    look = {
        "value": value,
        "description": name.replace("_", " "),
        "style": {"description_width": "11em"},
        "layout": {"width": "34em"},
        "continuous_update": False,
    }
    if step == "log":
        ends = {"min": math.log10(low), "max": math.log10(high)}
        return ipywidgets.FloatLogSlider(**look, **ends, readout_format=".2g")
    whole = isinstance(value, int)
    kind = ipywidgets.IntSlider if whole else ipywidgets.FloatSlider
    return kind(**look, min=low, max=high, step=step)
