"""What a figure needs to follow sliders, and to be seen where no widgets run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def ipywidgets() -> Any | None:
    """The package, or None without it or without a notebook to show it in."""
    try:
        import ipywidgets
        from IPython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()
    return ipywidgets if getattr(shell, "kernel", None) is not None else None


def caught(draw: Callable[[], None]) -> dict[str, Any]:
    """The formats of the figure that `draw` displays, which is held back."""
    from IPython.utils.capture import capture_output

    with capture_output(stdout=False, stderr=False) as held:
        draw()
    return dict(held.outputs[-1].data)


def show(widget: Any, figure: dict[str, Any]) -> None:
    """Display a widget, with the figure for readers that run no widgets."""
    from IPython.display import display

    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    kind = "application/vnd.jupyter.widget-view+json"  # ipywidgets 7 and 8
    display({**figure, kind: view}, raw=True)
