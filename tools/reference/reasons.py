"""Keeps the page on reasons complete: a reason without a section gets one, with the two parts that
a person fills in.

Cause and fix are written by people; only the skeleton is generated. A unit test rejects a part that
is still to be written.
"""

import re
from pathlib import Path
from typing import Final

from inferrun.reasons import Reason

PAGE: Final = Path("troubleshooting") / "reasons.md"
TO_WRITE: Final = "(to be written)"

_HEADING: Final = re.compile(r"^### (\w+)$", re.MULTILINE)


def stale(docs: Path) -> dict[Path, str]:
    """The page with sections for missing reasons; nothing if it has them all."""
    page = docs / PAGE
    text = page.read_text(encoding="utf-8")
    new = complete(text)
    return {page: new} if new != text else {}


def complete(text: str) -> str:
    """`text` with a section for every reason that it lacks, at the end."""
    missing = [reason for reason in Reason if reason.value not in _HEADING.findall(text)]
    return text + "".join(_skeleton(reason) for reason in missing)


def _skeleton(reason: Reason) -> str:
    return f"\n### {reason.value}\n\n- **Cause.** {TO_WRITE}\n- **Fix.** {TO_WRITE}\n"
