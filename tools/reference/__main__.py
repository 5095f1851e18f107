"""Writes the generated parts of the pages under docs/, the JSON schemas and the dashboards, or
compares them with `--check`.

Exit code 1 with `--check`: a page is out of date. A generated part is enclosed by two comments,
`<!-- generated: NAME -->` and `<!-- end of generated -->`; text between them is overwritten.
"""

import argparse
import sys
from pathlib import Path

from tools.reference import catalogue, dashboards, pages, reasons, schemas

COMMAND = "python -m tools.reference"


def main(arguments: list[str] | None = None, *, docs: Path = pages.DOCS) -> int:
    """Write or compare; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description="Generate the reference parts of the documentation."
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a page is out of date"
    )
    is_check = parser.parse_args(arguments).check
    stale = {**pages.stale(docs, catalogue.parts()), **reasons.stale(docs), **schemas.stale(docs)}
    stale |= dashboards.stale(docs.parent)
    for path, text in stale.items():
        name = path.relative_to(docs.parent)
        if is_check:
            sys.stderr.write(f"{name} is out of date; run: {COMMAND}\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {name}\n")
    return 1 if is_check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
