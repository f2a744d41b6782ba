"""An environment without the course, and the course as a repository it can come from.

Stands in for Colab: every package is there but the course and `evaluate`, and there is
no index, so what pip brings must lie on this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from authoring import project
from authoring.project import ROOT

ABSENT = ("gradient-accumulation-course", "evaluate")


def make_environment(folder: Path) -> Path:
    """A venv in `folder`, its packages links to ours; returns its Python."""
    try:
        venv.create(folder, with_pip=False, symlinks=os.name != "nt")
        packages, absent = site_packages(folder), _entries(ABSENT)
        for kind in ("purelib", "platlib"):
            for path in Path(sysconfig.get_path(kind)).iterdir():
                link = packages / path.name
                ours = "gradient_accumulation" in path.name or path.name in absent
                if not ours and not link.exists():
                    link.symlink_to(path, target_is_directory=path.is_dir())
    except OSError as error:
        if os.name != "nt":  # only Windows keeps links for those with a right to them
            raise
        pytest.skip(f"this machine lets us make no links to packages: {error}")
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _entries(distributions: tuple[str, ...]) -> set[str]:
    """The files and folders that these distributions put among the packages."""
    return {
        file.parts[0]
        # By path: the folder we run in may hold metadata of the course, too.
        for found in metadata.distributions(path=[sysconfig.get_path("purelib")])
        if found.metadata["Name"] in distributions
        for file in found.files
    }


def site_packages(folder: Path) -> Path:
    """Where the packages of the venv in `folder` lie."""
    place = {"base": str(folder), "platbase": str(folder)}
    scheme = "venv" if "venv" in sysconfig.get_scheme_names() else None  # from 3.11
    scheme = scheme or sysconfig.get_preferred_scheme("prefix")
    return Path(sysconfig.get_path("purelib", scheme, place))


def make_wheel(name: str, folder: Path) -> None:
    """Pack an installed package into a wheel again."""
    found = metadata.distribution(name)
    wheel = folder / f"{name}-{found.version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in found.files:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                archive.write(file.locate(), file.as_posix())


def make_repository(folder: Path) -> str:
    """The course as it lies here, committed and tagged in `folder`; its address."""
    if not shutil.which("git"):
        pytest.skip("git is not installed, and the set-up cell needs it")
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in listed.split("\0"):
        if name and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "course")
    git(folder, "tag", project.read().tag)
    return folder.as_uri()


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"git {arguments[0]}: {done.stderr.strip()}"
    return done.stdout


def variables(wheels: Path) -> dict[str, str]:
    """Environment variables: nothing of ours, no index, builds with what is there."""
    # IPython would add the packages of an environment that is active in the shell.
    ours = ("PIP_", "PYTHON", "VIRTUAL_ENV")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return kept | {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads 0 here as "no isolation"
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONUTF8": "1",
    }


def run(python: Path, folder: Path, code: str, environment: dict[str, str]):
    """Run `code`, magics included, in `folder` as a notebook's kernel would."""
    script = folder / "cell.ipy"
    script.write_text(code, "utf-8")
    flags = ["--no-banner", "--colors=NoColor", "--HistoryManager.enabled=False"]
    try:
        return subprocess.run(
            [python, "-m", "IPython", *flags, script.name],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
    finally:
        script.unlink()
