"""Make a script of functions that a notebook has defined."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import os
import shutil
import symtable
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

_PLAIN = (bool, int, float, str, tuple, list, dict, type(None))


def script(*functions: Callable) -> Path:
    """Write functions as a script that calls them in turn; the file of it.

    The script holds their source, the imports that they use, and the other functions
    and plain values of the notebook that they name. The file is named after the first
    function and goes away with this Python.

    Raises:
        TypeError: nothing to call, or a function without source.
        ValueError: a function names something that cannot be written down, such as a
            model: make it inside the function.
    """
    if not functions or not all(isinstance(f, FunctionType) for f in functions):
        raise TypeError("Give the functions to call, or the file of a script.")
    imports: set[str] = set()
    parts: dict[str, str] = {}
    for function in functions:
        _collect(function, imports, parts)
    calls = [f"    {function.__name__}()" for function in functions]
    end = "\n".join(['if __name__ == "__main__":', *calls])
    text = "\n\n\n".join(["\n".join(sorted(imports)), *parts.values(), end])
    file = folder() / f"{functions[0].__name__}.py"
    file.write_text(text.lstrip() + "\n", encoding="utf-8")
    return file


def folder() -> Path:
    """A folder that goes away with this Python."""
    return Path(_folder().name)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    _remove_left_behind()
    return tempfile.TemporaryDirectory(prefix=f"launch_{os.getpid()}_")


def _remove_left_behind() -> None:
    """The folders of Pythons that were killed, and so could not remove their own."""
    import psutil

    for old in Path(tempfile.gettempdir()).glob("launch_*_*"):
        owner = old.name.split("_")[1]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(old, ignore_errors=True)


def _collect(function: FunctionType, imports: set[str], parts: dict[str, str]) -> None:
    """Add a function after all that it names."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError:
        raise TypeError(
            f"The source of {function.__name__} cannot be read; define it in a cell."
        ) from None
    parts[function.__name__] = ""  # so that one which calls itself is met once
    for name in _names(source):
        if name in parts or hasattr(builtins, name) or name not in function.__globals__:
            continue
        value = function.__globals__[name]
        if isinstance(value, FunctionType) and _of_the_notebook(value, function):
            _collect(value, imports, parts)
        elif line := _import(name, value, function):
            imports.add(line)
        elif isinstance(value, _PLAIN):
            parts[name] = f"{name} = {value!r}"
        else:
            raise ValueError(
                f"{function.__name__} uses `{name}`, a {type(value).__name__} of the "
                "notebook, which a script cannot take along; make it in the function."
            )
    del parts[function.__name__]
    parts[function.__name__] = source.rstrip()


def _names(source: str) -> list[str]:
    """Names from outside that the source reads, each once, in order."""
    outside: set[str] = set()
    tables = [symtable.symtable(source, "<script>", "exec")]
    for table in tables:
        tables += table.get_children()
        at_top = table.get_type() == "module"  # defaults, annotations, decorators
        outside |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_referenced() and (at_top or symbol.is_global())
        }
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
    return [name for name in dict.fromkeys(n.id for n in nodes) if name in outside]


def _of_the_notebook(value: Any, function: FunctionType) -> bool:
    return value.__module__ in ("__main__", function.__module__)


def _import(name: str, value: Any, function: FunctionType) -> str | None:
    if isinstance(value, ModuleType):
        package, _, last = value.__name__.rpartition(".")
        if last == name and package:
            return f"from {package} import {name}"
        return f"import {value.__name__}" + ("" if last == name else f" as {name}")
    if isinstance(value, (FunctionType, type)) and not _of_the_notebook(
        value, function
    ):
        own = value.__name__
        return f"from {value.__module__} import {own}" + (
            "" if own == name else f" as {name}"
        )
    return None
