"""The resolver's answer for each mode and version of KServe, compared with a file that people have reviewed."""

import json

import pytest

from tests.unit.inferrun.kserve.modes import ANSWERS, MODES


@pytest.mark.parametrize("name", MODES)
def test_each_mode_has_its_answer(name: str) -> None:
    assert MODES[name].answer() == json.loads(ANSWERS.read_text(encoding="utf-8"))[name]


def test_the_file_has_no_other_modes() -> None:
    assert list(json.loads(ANSWERS.read_text(encoding="utf-8"))) == list(MODES)
