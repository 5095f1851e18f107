"""What is reported about a config, and about its edits."""

from typing import Any

import pytest

from inferrun.reasons import Reason
from inferrun.run_defaults import Defaults
from operator_shim.config_verdicts import ConfigDigest, config_verdict, edit_notice
from tests.unit.objects import config


@pytest.mark.parametrize(
    ("given", "reason", "named"),
    [
        ({}, Reason.READY, "runs can use this config"),
        (
            {"storage": {"input": {"flie": {"claimName": "a"}}}},
            Reason.INVALID_STORAGE,
            "spec.storage.input",
        ),
        ({"serviceAccountName": "admin"}, Reason.INVALID_SPEC, "spec.serviceAccountName"),
        ({"image": "evil:1"}, Reason.INVALID_SPEC, "spec.image"),
        ({"priorityClassName": "urgent"}, Reason.INVALID_SPEC, "spec.priorityClassName"),
        (
            {"kserve": {"modelName": "a"}, "modelName": "b"},
            Reason.INVALID_SPEC,
            "modelName",
        ),
    ],
)
def test_the_verdict_on_a_config_names_the_field(
    given: dict[str, Any], reason: Reason, named: str
) -> None:
    complete = {
        "storage": {"input": {"own": {}}, "output": {"own": {}}},
        "image": "foreign:1",
        **given,
    }
    if "flie" in str(given):
        del complete["image"]
    defaults = Defaults(
        allowed_service_accounts=("runner",), allowed_images=("foreign:*",), runner_image="own:1"
    )
    found, message = config_verdict(
        ConfigDigest.of(config(**complete)), defaults, runner_account=""
    )
    assert found is reason
    assert named in message


def test_an_edit_that_affects_all_runs_is_not_worth_a_notice() -> None:
    assert edit_notice([], generation=2) == ""
    assert "1 run in progress, which keep what they started with: a;" in edit_notice(
        ["a"], generation=2
    )
    assert edit_notice([f"active-{number}" for number in range(8)], generation=2) == (
        "generation 2 does not affect 8 runs in progress, which keep what they started with: active-0, active-1, "
        "active-2, active-3, active-4 and 3 more; to use it, create new runs"
    )
