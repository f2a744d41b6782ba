"""Opens the course in JupyterLab: lesson 1 with its table of contents beside it.

    python lab.py                # in the environment that has the course installed
    python lab.py --no-browser   # any option of JupyterLab

What it adds to a plain `jupyter lab` stays inside the environment's own folder; the
settings that you keep elsewhere are read and never written.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
SHARE = Path(sys.prefix, "share", "jupyter", "lab")
WORKSPACE = "course"
# Without this JupyterLab asks, over the lesson, whether it may fetch news.
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
    }
}


def keep_quiet() -> None:
    """Write the default settings of this environment, where it has none of its own."""
    path = SHARE / "settings" / "overrides.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(SETTINGS, indent=2), encoding="utf-8")


def lay_out(lesson: str) -> None:
    """Make the first layout: the lesson open, its contents at the left.

    A layout that is there is what the learner last saw, and is left as it is.
    """
    from jupyterlab_server.workspaces_handler import WorkspacesManager

    folder = SHARE / "workspaces"
    os.environ["JUPYTERLAB_WORKSPACES_DIR"] = str(folder)
    if list(folder.glob("*.jupyterlab-workspace")):
        return
    notebook = f"notebook:{lesson}"
    area = {"type": "tab-area", "currentIndex": 0, "widgets": [notebook]}
    left = {"collapsed": False, "current": "@jupyterlab/toc:plugin"}
    layout = {"main": {"dock": area, "current": notebook}, "left": left}
    open_notebook = {"data": {"path": lesson, "factory": "Notebook"}}
    data = {"layout-restorer:data": layout, notebook: open_notebook}
    workspace = {"data": data, "metadata": {"id": WORKSPACE}}
    WorkspacesManager(str(folder)).save(WORKSPACE, json.dumps(workspace))


def main() -> None:
    """Start JupyterLab in the course's folder; stops with Control-C."""
    lessons = sorted(ROOT.glob("notebooks/01_*.ipynb"))
    if not lessons:
        sys.exit(f"There is no lesson 1 in {ROOT / 'notebooks'}: run make notebooks.")
    keep_quiet()
    lay_out(lessons[0].relative_to(ROOT).as_posix())
    from jupyterlab.labapp import LabApp

    options = [
        f"--ServerApp.root_dir={ROOT}",
        f"--LabApp.default_url=/lab/workspaces/{WORKSPACE}",
    ]
    # Jupyter refuses to run as root, which is who one is in most containers.
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")
    LabApp.launch_instance([*options, *sys.argv[1:]])


if __name__ == "__main__":
    main()
