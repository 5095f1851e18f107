"""The page on reasons has every reason, once, with its cause and its cure, and no other."""

import re

import pytest

from inferrun.reasons import Reason
from tests.unit.docs.pages import REASONS

SECTIONS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^#|\Z)", REASONS.read_text(), re.DOTALL | re.MULTILINE))


def test_the_page_has_exactly_the_reasons_that_there_are() -> None:
    headings = re.findall(r"^### (.+)$", REASONS.read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(reason.value for reason in Reason)


@pytest.mark.parametrize("reason", list(Reason))
def test_a_reason_has_a_cause_and_a_cure(reason: Reason) -> None:
    text = SECTIONS[reason.value]
    assert re.search(r"^- \*\*Cause\.\*\* \S.{10,}", text, re.MULTILINE), text
    assert re.search(r"^- \*\*Cure\.\*\* \S", text, re.MULTILINE), text
