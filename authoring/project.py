"""Where the course lives, read from the one place that says it: pyproject.toml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10; jupytext and pytest bring it there
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]


class AuthoringError(Exception):
    """A lesson or setting that cannot be built; its text is for the author."""


@dataclass(frozen=True)
class Project:
    """The course's address, for example https://github.com/a/b, and its version."""

    repository: str
    version: str

    @property
    def slug(self) -> str:
        """The `owner/name` that Colab and Binder ask for."""
        return self.repository.removeprefix("https://github.com/")

    @property
    def tag(self) -> str:
        """The release that a notebook and the helpers it installs both come from."""
        return f"v{self.version}"


def read(root: Path = ROOT) -> Project:
    """Read the address and version of the course in `root`.

    Raises:
        AuthoringError: the address is not one of GitHub, which Colab needs.
    """
    table = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    address = table["urls"]["Repository"].rstrip("/").removesuffix(".git")
    if not address.startswith("https://github.com/"):
        raise AuthoringError(
            f"pyproject.toml gives the repository {address}, but Colab and Binder "
            "need https://github.com/OWNER/NAME. Change [project.urls] Repository."
        )
    return Project(address, table["version"])
