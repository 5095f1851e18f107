"""The page on reasons has a section for each reason, with cause and fix, and no other section."""

import re

import pytest

from inferrun.reasons import Reason
from tests.unit.docs.pages import REASONS
from tools.reference.reasons import TO_WRITE, complete

SECTIONS = dict(
    re.findall(r"^### (\w+)\n(.*?)(?=^#|\Z)", REASONS.read_text(), re.DOTALL | re.MULTILINE)
)


def test_the_page_has_exactly_the_declared_reasons() -> None:
    headings = re.findall(r"^### (.+)$", REASONS.read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(reason.value for reason in Reason)


@pytest.mark.parametrize("reason", list(Reason))
def test_a_reason_has_a_cause_and_a_fix(reason: Reason) -> None:
    text = SECTIONS[reason.value]
    assert TO_WRITE not in text, (
        f"write cause and fix of {reason} in docs/troubleshooting/reasons.md"
    )
    assert re.search(r"^- \*\*Cause\.\*\* [A-Z`].{10,}", text, re.MULTILINE), text
    assert re.search(r"^- \*\*Fix\.\*\* [A-Z`]", text, re.MULTILINE), text


def test_a_missing_reason_gets_a_section_to_fill_in() -> None:
    text = REASONS.read_text().replace("### Ready\n", "")
    completed = complete(text)
    assert completed.startswith(text)
    assert (
        completed.removeprefix(text)
        == f"\n### Ready\n\n- **Cause.** {TO_WRITE}\n- **Fix.** {TO_WRITE}\n"
    )
