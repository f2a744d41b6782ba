"""Executes a solved notebook and keeps of its outputs what a reader should see."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from authoring.project import AuthoringError

if TYPE_CHECKING:
    from nbformat import NotebookNode

CELL_TIMEOUT = 300  # seconds
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
WIDGET = "application/vnd.jupyter.widget-view+json"


def execute(notebook: NotebookNode, folder: Path) -> None:
    """Run every cell in place, in `folder`, with every exercise to be correct.

    The kernel is the Python that runs this, whatever kernels the user has.

    Raises:
        AuthoringError: a cell failed, or took longer than CELL_TIMEOUT.
    """
    from ipykernel.kernelspec import get_kernel_dict
    from jupyter_client import AsyncKernelManager
    from jupyter_client.kernelspec import KernelSpec
    from nbclient import NotebookClient
    from nbclient.exceptions import (
        CellExecutionError,
        CellTimeoutError,
        DeadKernelError,
    )

    class ThisPython(AsyncKernelManager):
        @property
        def kernel_spec(self) -> KernelSpec:
            return KernelSpec(**get_kernel_dict())

    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        resources={"metadata": {"path": str(folder)}},
        kernel_manager_class=ThisPython,
        store_widget_state=False,
        record_timing=False,
        coalesce_streams=True,
    )
    metadata = dict(notebook.metadata)
    try:
        # The author's own progress is no part of the notebook, and stays as it is.
        with tempfile.TemporaryDirectory() as progress:
            mode = {
                "COURSE_CHECKS": "solved",
                "COURSE_PROGRESS": str(Path(progress, "progress.json")),
            }
            # The kernel's own stderr, which is about how it is connected.
            client.execute(env={**os.environ, **mode}, stderr=subprocess.DEVNULL)
    except CellExecutionError as error:
        text = COLOURS.sub("", str(error)).strip()
        raise AuthoringError(f"a cell failed: {text}") from None
    except (CellTimeoutError, DeadKernelError) as error:
        raise AuthoringError(f"a cell did not end: {error}") from None
    notebook.metadata.clear()  # nbclient writes the kernel's exact version into it
    notebook.metadata.update(metadata)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if _worth_keeping(output)]


def _worth_keeping(output: NotebookNode) -> bool:
    """Not the noise on stderr, nor a widget, which is empty without its state.

    A widget that brings a picture or HTML of itself keeps that.
    """
    shown = output.get("data", {})
    if shown.pop(WIDGET, None) and not {"text/html", "image/png"} & shown.keys():
        return False
    return output.get("name") != "stderr"
