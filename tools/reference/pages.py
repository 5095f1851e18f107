"""Finds the generated parts of the pages and renders them again. Reads files, writes none."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"

_PART: Final = re.compile(
    r"(<!-- generated: ([a-z0-9-]+) -->\n).*?(<!-- end of generated -->)", re.DOTALL
)


def stale(docs: Path, parts: Mapping[str, str]) -> dict[Path, str]:
    """The pages whose generated parts differ from `parts`, each with its new text."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(docs.rglob("*.md"))}
    return {path: new for path, old in texts.items() if (new := render(old, parts)) != old}


def names(text: str) -> list[str]:
    """The generated parts that a page's text contains, in order."""
    return [found[2] for found in _PART.finditer(text)]


def render(text: str, parts: Mapping[str, str]) -> str:
    """`text` with current parts. Raises KeyError for a part that is not in the catalogue."""
    return _PART.sub(lambda found: f"{found[1]}\n{parts[found[2]]}\n{found[3]}", text)
