"""The documentation as the tests read it: pages, their fenced blocks, the words in backticks, the links."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "README.md"
REASONS = ROOT / "docs" / "reasons.md"
CONTRACT = ROOT / "docs" / "contract.md"
OPERATIONS = ROOT / "docs" / "operations.md"
DECISIONS = ROOT / "docs" / "decisions"
PAGES = (README, REASONS, CONTRACT, OPERATIONS, *sorted(DECISIONS.glob("*.md")), ROOT / "examples" / "README.md")

_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]+\]\(([^)]+)\)")

Json = dict[str, Any]  # Any: manifests are free-form JSON


def blocks(page: Path, kind: str) -> list[str]:
    """The fenced blocks of a kind, such as yaml."""
    return [found[2] for found in _BLOCK.finditer(page.read_text(encoding="utf-8")) if found[1] == kind]


def manifests() -> list[Json]:
    """Every resource in the pages and the examples that is ours."""
    texts = [text for page in PAGES for text in blocks(page, "yaml")]
    texts += [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*.yaml"))]
    documents = [document for text in texts for document in yaml.safe_load_all(text)]
    return [one for one in documents if one["apiVersion"].startswith("ai.krateo.io/")]


def prose(page: Path) -> str:
    """The text without its fenced blocks."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def commands() -> Iterator[str]:
    """What the pages tell people to type: fenced blocks without a language, and words in backticks."""
    for page in PAGES:
        for text in blocks(page, ""):
            yield from text.replace("\\\n", " ").splitlines()
        yield from (found[1] for found in re.finditer(r"`([^`\n]+)`", prose(page)))


def links(page: Path) -> list[str]:
    """The targets of a page's links that point into the repository."""
    return [target for target in _LINK.findall(prose(page)) if "://" not in target]
