"""Runs the notebooks with nbval, learner and solved ones alike, as `make test` does.

python -m authoring.run_notebooks        all of them
python -m authoring.run_notebooks 02     those whose name begins so
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from authoring.execute import CELL_TIMEOUT
from authoring.project import ROOT, AuthoringError

WORKERS = 2


def command(root: Path = ROOT, begins: str = "") -> list[str]:
    """The pytest command: marked outputs are compared, one kernel a notebook.

    Raises:
        AuthoringError: no notebook's name begins so.
    """
    notebooks = root / "notebooks"
    found = [notebooks] if not begins else sorted(notebooks.rglob(f"{begins}*.ipynb"))
    if not any(notebooks.rglob(f"{begins}*.ipynb")):
        raise AuthoringError(f"No notebook in {notebooks} begins with {begins!r}.")
    options = [
        *("-p", "authoring.nbval_guard", "-p", "no:cacheprovider", "-q"),
        *("--nbval-lax", "--nbval-current-env"),
        f"--nbval-cell-timeout={CELL_TIMEOUT}",
        # A notebook must stay on one worker: its cells share a kernel.
        *("-n", str(WORKERS), "--dist", "loadfile"),
        f"--rootdir={root}",
    ]
    return [sys.executable, "-m", "pytest", *map(str, found), *options]


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Run the command; returns its exit status, 0 when every cell passed."""
    try:
        return subprocess.run(command(root, *arguments), cwd=root).returncode
    except AuthoringError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
