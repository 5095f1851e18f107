"""Names of a package that are loaded on first use, so that importing the package stays cheap."""

import sys
from collections.abc import Callable, Collection, Sequence
from importlib import import_module


def lazy_exports(
    package: str, names: Collection[str], *, modules: Sequence[str]
) -> Callable[[str], object]:
    """The `__getattr__` of a package whose `names` are in these modules of it, the one whose import
    is cheapest first."""

    def load(name: str) -> object:
        for module in modules if name in names else ():
            value: object = getattr(import_module(f"{package}.{module}"), name, None)
            if value is not None:
                setattr(sys.modules[package], name, value)
                return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
