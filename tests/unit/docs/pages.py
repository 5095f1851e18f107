"""The documentation as the tests read it: pages, their fenced blocks, the words in backticks, the
links."""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
REASONS = DOCS / "troubleshooting" / "reasons.md"
CONTRACT = DOCS / "reference" / "contract.md"
FRONT_DOOR = DOCS / "reference" / "front-door.md"
CUSTOM_IMAGE = DOCS / "how-to" / "custom-image.md"
STORE = DOCS / "how-to" / "store.md"
TASKS = DOCS / "contributing" / "tasks.md"
OPERATIONS = DOCS / "operations.md"
DECISIONS = DOCS / "decisions"
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted(DOCS.rglob("*.md")),
    ROOT / "examples" / "README.md",
)

_BLOCK = re.compile(r"^ *```(\S*)[^\n]*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

Json = dict[str, Any]  # Any: manifests are free-form JSON


def name_of(page: Path) -> str:
    """A page's path in the repository."""
    return str(page.relative_to(ROOT))


def blocks(page: Path, kind: str) -> list[str]:
    """The fenced blocks of a kind, such as yaml."""
    return [
        dedent(found[2])
        for found in _BLOCK.finditer(page.read_text(encoding="utf-8"))
        if found[1] == kind
    ]


def kinds(page: Path) -> set[str]:
    """The languages and directives of a page's fenced blocks."""
    return {found[1] for found in _BLOCK.finditer(page.read_text(encoding="utf-8"))}


def manifests() -> list[Json]:
    """Every resource of ours in the pages and the examples."""
    texts = [text for page in PAGES for text in blocks(page, "yaml")]
    texts += [
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").rglob("*.yaml"))
    ]
    documents = [document for text in texts for document in yaml.safe_load_all(text)]
    # a block without a version is a part of a manifest, or of the chart's values
    ours = "ai.krateo.io/"
    return [one for one in documents if str(one.get("apiVersion", "")).startswith(ours)]


def manifest_name(manifest: Json) -> str:
    """A resource's name, or the beginning of a generated one."""
    metadata = manifest["metadata"]
    return str(metadata.get("name") or metadata["generateName"])


def prose(page: Path) -> str:
    """The text without its fenced blocks."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def code_spans(page: Path) -> list[str]:
    """What stands in backticks outside of blocks; a span may continue on the next line."""
    return [" ".join(found[1].split()) for found in re.finditer(r"`([^`]+)`", prose(page))]


def commands() -> Iterator[str]:
    """What the pages tell people to type: lines of fenced blocks without a language, and words in
    backticks."""
    for page in PAGES:
        for text in blocks(page, ""):
            yield from (line.strip() for line in re.sub(r"\\\n\s*", "", text).splitlines())
        yield from code_spans(page)


def links(page: Path) -> list[str]:
    """The targets of a page's links and images that are in the repository."""
    return [target for _, _, target in _LINK.findall(prose(page)) if "://" not in target]


def images(page: Path) -> list[tuple[str, str]]:
    """A page's images: alternative text and target."""
    return [(text, target) for mark, text, target in _LINK.findall(prose(page)) if mark]


def anchors(page: Path) -> set[str]:
    """The link targets that a page's headings make."""
    headings = _HEADING.findall(_BLOCK.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings}
