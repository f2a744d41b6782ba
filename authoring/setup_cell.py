"""What every notebook opens with: its set-up cell and the buttons to run it online."""

from __future__ import annotations

from authoring.project import Project

# The second line from the end forgets an unrelated, empty folder called helpers, which
# Python has taken for the package by then. A file of that name cannot be forgotten; the
# last line then says where it lies.
SETUP = """\
try:
    import helpers.runtime
except ImportError:
    %pip install --quiet --no-deps "git+{project.repository}@{project.tag}"
    __import__("sys").modules.pop("helpers", None)
from helpers import runtime; runtime.start("{project.version}")"""

COLAB = "https://colab.research.google.com/github/{slug}/blob/{tag}/{path}"
BINDER = "https://mybinder.org/v2/gh/{slug}/{tag}?urlpath=lab/tree/{path}"


def setup_cell(project: Project) -> str:
    """The code of the set-up cell, the same in every notebook."""
    return SETUP.format(project=project)


def buttons(project: Project, stem: str) -> str:
    """Markdown that opens the notebook `stem` in Colab and on Binder.

    Words and no badges: a badge is an image from the network, so it would be a broken
    picture to those who follow the course offline.
    """
    where = {
        "slug": project.slug,
        "tag": project.tag,
        "path": f"notebooks/{stem}.ipynb",
    }
    colab, binder = COLAB.format(**where), BINDER.format(**where)
    return f"[Open this lesson in Colab]({colab}) · [Open it on Binder]({binder})"
