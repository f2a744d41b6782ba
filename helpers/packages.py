"""The packages the course needs: what is here, what is missing, what is out of range.

The list is the package's own metadata, from pyproject.toml: no second one is kept.
"""

from __future__ import annotations

from importlib import invalidate_caches, metadata
from pathlib import Path
from typing import TYPE_CHECKING

from helpers import VERSION

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION = "gradient-accumulation-course"


def requirements() -> list[Requirement]:
    """What the helpers need to run, as ranges: the package's own list, no extras."""
    from packaging.requirements import Requirement

    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []  # read from a folder on the path; course_problem says so
    wanted = map(Requirement, lines)
    return [
        line
        for line in wanted
        if line.marker is None or line.marker.evaluate({"extra": ""})
    ]


def version_of(name: str) -> str | None:
    """The version of an installed package, None where it is missing."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def install(missing: list[Requirement]) -> None:
    """Install what is missing; nothing that is present changes its version.

    Raises:
        RuntimeError: pip failed, with the last thing that it said.
    """
    import subprocess
    import sys
    import tempfile

    if not missing:
        return
    names = ", ".join(line.name for line in missing)
    print(f"Installing what this machine lacks: {names}.")
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "present.txt"
        constraints.write_text("\n".join(pins_of_present()), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", "--quiet"]
        command += ["--constraint", str(constraints), *map(str, missing)]
        result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise RuntimeError(
            f"{names} could not be installed ({reason}). Install it in the "
            f"environment of this notebook ({sys.prefix}), then restart the kernel."
        )
    invalidate_caches()


def pins_of_present() -> list[str]:
    """A line ``name==version`` for each package here, so that pip moves none."""
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion, Version

    found: dict[str, str] = {}
    for dist in metadata.distributions():
        try:
            number = str(Version(dist.version))
        except (InvalidVersion, TypeError):
            continue  # pip would refuse the whole file for one such line
        # Where a package is twice on the path, the first is the one that imports.
        found.setdefault(canonicalize_name(dist.metadata["Name"]), number)
    return [f"{name}=={number}" for name, number in sorted(found.items())]


def range_problem(wanted: Requirement) -> str | None:
    """One sentence where a present package is outside of the tested range."""
    found = version_of(wanted.name)
    if found is None or wanted.specifier.contains(found, prereleases=True):
        return None
    return (
        f"{wanted.name} {found} is outside of the tested range {wanted.specifier}: "
        f'run %pip install "{wanted}" and restart the kernel.'
    )


def course_problem(notebook: str) -> str | None:
    """One sentence where notebook and helpers are not of the same version."""
    from packaging.version import Version

    if version_of(DISTRIBUTION) is None:
        folder = Path(__file__).parent
        return f"The helpers in {folder} are not installed: run make lab there."
    if Version(notebook) == Version(VERSION):
        return None
    if Version(notebook) < Version(VERSION):
        return (
            f"This notebook is older ({notebook}) than the helpers ({VERSION}): "
            "download the notebook again."
        )
    return (
        f"The helpers are older ({VERSION}) than this notebook ({notebook}): run "
        f"%pip install --force-reinstall --no-deps git+{_address()}@v{notebook} "
        "and restart the kernel."
    )


def _address() -> str:
    """Where the course lives, from the package's own metadata."""
    lines = metadata.metadata(DISTRIBUTION).get_all("Project-URL") or []
    return lines[0].partition(", ")[2]
