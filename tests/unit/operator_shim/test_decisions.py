"""The action of the shim, derived from the current state of a run."""

from typing import Any

import pytest

from inferrun.reasons import Reason
from inferrun.run_defaults import Defaults
from operator_shim.decisions import (
    ActionKind,
    ConfigDigest,
    cancellation_notice,
    config_verdict,
    decide,
    edit_notice,
    has_unacknowledged_edit,
    may_write_status,
)
from tests.unit.objects import STARTED, Json, config, run

CANCEL = {"annotations": {"inferrun.dev/cancel-requested": "true"}}
COPY = {"annotations": {"inferrun.dev/started-as": "the UID of another one"}}
DELETED = {"deletionTimestamp": STARTED}
CONDITION = {"type": "Ready", "status": "True", "lastTransitionTime": STARTED}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, ActionKind.START),
        ({"status": {"phase": "Pending", "reason": "ConfigNotFound"}}, ActionKind.START),
        ({"status": {"phase": "Running", "contract": "e30="}}, ActionKind.START),
        ({"status": {"phase": "Succeeded"}}, ActionKind.NOTHING),
        ({"status": {"phase": "Failed"}}, ActionKind.NOTHING),
        ({"status": {"phase": "Failed"}, "metadata": CANCEL}, ActionKind.NOTHING),
        ({"status": {"phase": "Succeeded"}, "timeoutSeconds": 99}, ActionKind.NOTHING),
        ({"metadata": COPY}, ActionKind.REJECT),
        ({"metadata": COPY, "status": {"phase": "Pending", "reason": "ExecutedBefore"}}, ActionKind.REJECT),
        ({"metadata": COPY, "status": {"phase": "Succeeded"}}, ActionKind.NOTHING),
        ({"metadata": COPY, "status": {"phase": "Running", "contract": "e30="}}, ActionKind.START),
        ({"metadata": COPY, "schedule": "@daily"}, ActionKind.SCHEDULE),
        ({"metadata": DELETED}, ActionKind.CLEAN_UP),
        ({"metadata": DELETED, "status": {"phase": "Running"}}, ActionKind.CLEAN_UP),
        ({"metadata": {**DELETED, "finalizers": ["finalizer.managedresource.krateo.io"]}}, ActionKind.CLEAN_UP),
        ({"metadata": {"finalizers": ["finalizer.managedresource.krateo.io"]}}, ActionKind.START),
        ({"metadata": {"annotations": {"krateo.io/paused": "true"}}}, ActionKind.NOTHING),
        ({"metadata": {"annotations": {"krateo.io/paused": "false"}}}, ActionKind.START),
        ({"schedule": "0 9 * * MON"}, ActionKind.SCHEDULE),
        ({"schedule": "0 9 * * MON", "suspend": True}, ActionKind.SCHEDULE),
        ({"schedule": "@daily", "status": {"phase": "Scheduled"}}, ActionKind.SCHEDULE),
        ({"schedule": "12345"}, ActionKind.REJECT),
        ({"schedule": "@daily", "timeZone": "Mars/Olympus"}, ActionKind.REJECT),
        ({"parameters": {"job_uid": "forged"}}, ActionKind.REJECT),
        ({"metadata": CANCEL, "status": {"phase": "Running"}}, ActionKind.CANCEL),
        ({"metadata": CANCEL, "status": {"phase": "Pending"}}, ActionKind.CANCEL),
        ({"metadata": CANCEL}, ActionKind.START),
        ({"status": {"conditions": [CONDITION]}}, ActionKind.NOTHING),
        ({"status": {"contract": "e30="}}, ActionKind.NOTHING),
        ({"status": {"jobStatus": {"name": "inf-iris-5be07ada"}}}, ActionKind.NOTHING),
    ],
)
def test_the_action_depends_on_the_current_state_only(given: dict[str, Any], kind: ActionKind) -> None:
    assert decide(run(**given)).kind is kind


@pytest.mark.parametrize(
    ("given", "reason", "named"),
    [
        ({"schedule": "12345"}, Reason.INVALID_SCHEDULE, "spec.schedule"),
        ({"schedule": "0 0 30 2 *"}, Reason.INVALID_SCHEDULE, "spec.schedule"),
        ({"schedule": "@daily", "timeZone": "Mars/Olympus"}, Reason.INVALID_TIME_ZONE, "spec.timeZone"),
        ({"parameters": {"pod_uid": "forged"}}, Reason.INVALID_SPEC, "spec.parameters"),
    ],
)
def test_a_rejection_names_the_field(given: dict[str, Any], reason: Reason, named: str) -> None:
    action = decide(run(**given))
    assert action.reason is reason
    assert named in action.message


def test_a_started_run_is_not_rejected_by_a_newer_rule() -> None:
    started = run(parameters={"job_uid": "old"}, status={"phase": "Running", "contract": "e30="})
    assert decide(started).kind is ActionKind.START


@pytest.mark.parametrize(
    ("status", "may_write"),
    [
        ({}, True),
        ({"phase": "Pending", "reason": "InvalidSpec"}, True),
        ({"phase": "Pending", "reason": "InvalidSchedule"}, True),
        ({"phase": "Pending", "reason": "Accepted"}, False),
        ({"phase": "Pending", "reason": "ConfigNotFound"}, False),
        ({"phase": "Running", "reason": "InvalidSpec"}, False),
        ({"phase": "Failed", "reason": "InvalidSpec"}, False),
    ],
)
def test_the_shim_overwrites_only_an_empty_status_or_its_own_rejection(*, status: Json, may_write: bool) -> None:
    assert may_write_status(run(status=status)) is may_write


@pytest.mark.parametrize(
    ("given", "reason", "named"),
    [
        ({}, Reason.READY, "runs can use this config"),
        ({"storage": {"input": {"flie": {"claimName": "a"}}}}, Reason.INVALID_STORAGE, "spec.storage.input"),
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
def test_the_verdict_on_a_config_names_the_field(given: dict[str, Any], reason: Reason, named: str) -> None:
    complete = {"storage": {"input": {"own": {}}, "output": {"own": {}}}, "image": "foreign:1", **given}
    if "flie" in str(given):
        del complete["image"]
    defaults = Defaults(allowed_service_accounts=("runner",), allowed_images=("foreign:*",), runner_image="own:1")
    verdict = config_verdict(ConfigDigest.of(config(**complete)), defaults, runner_account="")
    assert verdict.reason is reason
    assert named in verdict.message


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, False),
        ({"phase": "Pending", "reason": "Accepted"}, False),
        ({"phase": "Pending", "reason": "InvalidSpec", "observedGeneration": 1}, False),
        ({"phase": "Pending", "reason": "ConfigNotFound", "observedGeneration": 1}, True),
        ({"phase": "Running", "reason": "Running", "observedGeneration": 2}, True),
        ({"phase": "Running", "reason": "Running", "observedGeneration": 3}, False),
    ],
)
def test_an_edit_is_sent_until_it_is_acknowledged(status: Json, *, expected: bool) -> None:
    """The run's generation is 3."""
    assert has_unacknowledged_edit(run(status=status)) is expected


def test_an_edit_that_affects_all_runs_is_not_worth_a_notice() -> None:
    assert edit_notice([], generation=2) == ""
    assert "1 run in progress, which keep what they started with: a;" in edit_notice(["a"], generation=2)
    assert edit_notice([f"active-{number}" for number in range(8)], generation=2) == (
        "generation 2 does not affect 8 runs in progress, which keep what they started with: active-0, active-1, "
        "active-2, active-3, active-4 and 3 more; to use it, create new runs"
    )


def test_a_schedule_that_fires_too_often_is_rejected_with_the_setting() -> None:
    action = decide(run(schedule="*/5 * * * *"), defaults=Defaults(min_schedule_interval_seconds=600))
    assert (action.kind, action.reason) == (ActionKind.REJECT, Reason.INVALID_SCHEDULE)
    assert "it fires every 300 s; at least 600 s are required in this installation" in action.message
    allowed = decide(run(schedule="*/10 * * * *"), defaults=Defaults(min_schedule_interval_seconds=600))
    assert allowed.kind is ActionKind.SCHEDULE


def test_a_schedule_without_a_request_for_cancellation_gets_no_advice() -> None:
    assert cancellation_notice(run(schedule="@daily")) == ""
    declined = {"annotations": {"inferrun.dev/cancel-requested": "false"}}
    assert cancellation_notice(run(schedule="@daily", metadata=declined)) == ""


def test_the_advice_fits_into_an_event_whatever_the_name() -> None:
    notice = cancellation_notice(run(schedule="@daily", metadata={**CANCEL, "name": "x" * 253, "namespace": "y" * 63}))
    assert len(notice) < 1000
