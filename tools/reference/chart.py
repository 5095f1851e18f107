"""Rows for the chart's values: path, default, and the comment above it in values.yaml."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.reference.markdown import Row

VALUES: Final = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "inferrun" / "values.yaml"

_VALUE: Final = re.compile(r"^( *)([A-Za-z]+):(.*)$")


def rows(text: str) -> Iterator[Row]:
    """One row for each value that has a default."""
    path: list[str] = []
    comments: list[str] = []
    for line in text.splitlines():
        if line.strip().startswith("#"):
            comments.append(line.strip().lstrip("#").strip())
            continue
        found = _VALUE.match(line)
        if found is None:
            comments = []
            continue
        indent, name, default = found.groups()
        path = [*path[: len(indent) // 2], name]
        if default.strip():
            yield f"`{'.'.join(path)}`", f"`{default.strip()}`", " ".join(comments)
        comments = []
