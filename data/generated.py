"""Writes the files that the commands of this folder make, or checks them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path


def write_or_check(files: Mapping[Path, bytes]) -> int:
    """The command line of a generator. Returns the exit status.

    Without an option it writes `files`. With `--check` it writes nothing, names each
    file that differs or is missing, and returns 1 if there is one.
    """
    script = Path(sys.argv[0]).name
    parser = argparse.ArgumentParser(prog=script)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    if parser.parse_args().check:
        stale = [p for p, b in files.items() if not p.is_file() or p.read_bytes() != b]
        for path in stale:
            print(
                f"{path.name} is not what {script} makes: run python data/{script}",
                file=sys.stderr,
            )
        return int(bool(stale))
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        print(f"{path.name}: {len(content):,} bytes")
    return 0
