"""Rows for the public names of a module: each name in `__all__` with the first sentence of its
documentation."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module

from tools.reference.markdown import Row


def rows(module: str) -> Iterator[Row]:
    """One row for each export, in alphabetical order."""
    imported = import_module(module)
    for name in sorted(imported.__all__, key=str.lower):
        yield f"`{name}`", _summary(getattr(imported, name))


def methods(module: str, name: str) -> Iterator[Row]:
    """One row for each public method of a class, in the order of the source."""
    kind = getattr(import_module(module), name)
    for method, value in vars(kind).items():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if not method.startswith("_") and inspect.isfunction(function):
            yield f"`{method}`", _summary(function)


def _summary(value: object) -> str:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return "type alias"
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z0-9`])", text, maxsplit=1)[0]
