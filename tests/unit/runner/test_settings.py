"""The settings and limits in the environment."""

import pytest

from inferrun.plugins import ContractError, Limits
from inferrun_runner.settings import Settings, read_settings


def test_settings_have_defaults_and_are_read_from_the_environment() -> None:
    settings = read_settings(
        {"pod_uid": "u", "INFERRUN_SECONDS_LEFT": "12.5", "INFERRUN_ATTEMPT": "2", "PATH": "/bin"}
    )
    assert (settings.pod_uid, settings.seconds_left, settings.attempt) == ("u", 12.5, 2)
    assert read_settings({}) == Settings()


def test_limits_are_read_from_the_environment() -> None:
    assert read_settings({"INFERRUN_BATCH_ROWS": "7"}).limits == Limits(batch_rows=7)


def test_an_empty_variable_is_absent() -> None:
    assert read_settings({"INFERRUN_SECONDS_LEFT": "", "INFERRUN_BATCH_ROWS": ""}) == Settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("INFERRUN_SECONDS_LEFT", "soon"),
        ("INFERRUN_BATCH_ROWS", "0"),
        ("INFERRUN_CONCURRENCY", "5000"),
    ],
)
def test_an_invalid_setting_is_reported_with_its_variable(name: str, value: str) -> None:
    with pytest.raises(ContractError, match=f"environment variable {name}: .*{value}"):
        read_settings({name: value})


def test_no_variable_is_both_a_setting_and_a_limit() -> None:
    assert not set(Settings.model_fields) & set(Limits.model_fields)
