"""The operator's defaults: an invalid value is reported and has no effect."""

from pathlib import Path

import pytest

from control.run_defaults_folder import DefaultsFolder
from inferrun.run_defaults import Defaults, parse_defaults, read_folder


def test_settings_are_parsed_from_text() -> None:
    values = {
        "backoffLimit": " 5\n",
        "allowedServiceAccounts": "a, b,,c ",
        "allowCrossNamespaceConfig": "true",
        "runnerImage": "registry/runner:2",
    }
    defaults, problems = parse_defaults(values, last=Defaults())
    assert problems == ()
    assert (defaults.backoff_limit, defaults.runner_image) == (5, "registry/runner:2")
    assert defaults.allowed_service_accounts == ("a", "b", "c")
    assert defaults.allow_cross_namespace_config


@pytest.mark.parametrize(
    ("key", "bad"),
    [
        ("backoffLimit", "two"),
        ("backoffLimit", "-1"),
        ("backoffLimit", "101"),
        ("backoffLimit", ""),
        ("backoffLimit", "2.5"),
        ("runnerImage", "  "),
        ("deadlineMarginSeconds", "0"),
        ("foreignLogTail", "perhaps"),
        ("krateoPostLimitBytes", "12"),
        ("runnerRequests", "cpu"),
        ("runnerLimits", "memory=lots"),
        ("runnerTmpSize", "much"),
        ("maxActiveRunsPerNamespace", "-1"),
        ("minScheduleIntervalSeconds", "59"),
        ("allowedAddresses", "10.0.0.0/33"),
        ("allowedNodeLabels", "topology.kubernetes.io/zone"),
        ("allowedNodeLabels", "pool=a?"),
        ("allowedTolerations", "nvidia.com/gpu=*"),
        ("refusedAddresses", "10.0.0.1:http"),
    ],
)
def test_an_invalid_value_is_reported_and_the_last_valid_one_remains(key: str, bad: str) -> None:
    last, _ = parse_defaults(
        {"backoffLimit": "7", "runnerImage": "last:1", "jobTtlSeconds": "60"}, last=Defaults()
    )
    now, problems = parse_defaults({key: bad, "jobTtlSeconds": "90"}, last=last)
    [problem] = problems
    assert problem.startswith(f"{key}: ")
    field = {field.alias: name for name, field in Defaults.model_fields.items()}[key]
    assert getattr(now, field) == getattr(last, field)
    assert now.job_ttl_seconds == 90


def test_removing_a_value_restores_its_default() -> None:
    last, _ = parse_defaults({"backoffLimit": "7"}, last=Defaults())
    now, problems = parse_defaults({}, last=last)
    assert (now.backoff_limit, problems) == (2, ())


def test_an_unknown_key_is_reported_with_the_allowed_ones() -> None:
    defaults, problems = parse_defaults({"backOffLimit": "7"}, last=Defaults())
    [problem] = problems
    assert problem.startswith(
        "backOffLimit: unknown setting; allowed are allowCrossNamespaceConfig, "
    )
    assert "backoffLimit" in problem
    assert defaults == Defaults()


def test_a_long_invalid_value_is_truncated() -> None:
    _, [problem] = parse_defaults({"backoffLimit": "x" * 10_000}, last=Defaults())
    assert len(problem) < 300


def test_a_missing_directory_has_no_settings(tmp_path: Path) -> None:
    assert read_folder(tmp_path / "absent") == {}


def test_the_directories_of_a_mounted_config_map_are_ignored(tmp_path: Path) -> None:
    data = tmp_path / "..2026_11_21"
    data.mkdir()
    (data / "backoffLimit").write_text("4")
    (tmp_path / "..data").symlink_to(data.name)
    (tmp_path / "backoffLimit").symlink_to("..data/backoffLimit")
    assert read_folder(tmp_path) == {"backoffLimit": "4"}


def test_a_changed_directory_is_read_again(tmp_path: Path) -> None:
    setting = tmp_path / "backoffLimit"
    setting.write_text("4")
    folder = DefaultsFolder(tmp_path)
    setting.write_text("9")
    assert folder.current().backoff_limit == 4
    folder.reread()
    assert folder.current().backoff_limit == 9
    setting.write_text("nine")
    folder.reread()
    assert folder.current().backoff_limit == 9
    assert folder.current().job_ttl_seconds == 86_400


def test_an_invalid_setting_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "backoffLimit").write_text("nine")
    folder = DefaultsFolder(tmp_path)
    folder.reread()
    folder.reread()
    assert [record.message for record in caplog.records] == [
        "invalid setting; its last valid value remains in effect"
    ]
