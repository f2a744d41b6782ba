"""The files that start a script on more than one machine; nothing here runs them."""

from __future__ import annotations

from pathlib import Path


def names() -> list[str]:
    """Of all files, in order."""
    return sorted(file.name for file in folder().iterdir() if file.is_file())


def text(name: str) -> str:
    """The text of one file.

    Raises:
        FileNotFoundError: there is none of this name; says which there are.
    """
    if name not in names():
        raise FileNotFoundError(
            f"There is no file {name!r}; there are {', '.join(names())}."
        )
    return (folder() / name).read_text(encoding="utf-8")


def folder() -> Path:
    """Where they lie: inside the installed package, or in the project."""
    package = Path(__file__).resolve().parent
    installed = package / "_configs"
    return installed if installed.is_dir() else package.parent / "configs"
