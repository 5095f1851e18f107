"""The runs that schedules and programs create, and the finished ones that are pruned."""

from datetime import UTC, datetime

import pytest

from activities.schedule_children import list_children
from control.runs.submissions import adopted, submission_status, submitted_run
from control.schedules.children import (
    in_progress,
    overlapping,
    schedule_of,
    scheduled_run,
    to_prune,
)
from inferrun import wellknown
from inferrun.kube.objects import Object, Resource
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, parse_run
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.run_result import result_of
from inferrun.submission import parse_submission
from inferrun.timestamps import parse, rfc3339
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import live_run
from tests.unit.objects import RUN
from workflows.messages import SubmissionState

DUE = datetime(2026, 11, 21, 9, 0, 0, tzinfo=UTC)
SPEC = {
    "configRef": {"name": "iris", "namespace": "models"},
    "parameters": {"day": "monday"},
    "timeoutSeconds": 60,
    "backoffLimit": 0,
    "pendingTimeoutSeconds": 30,
    "errorThreshold": "5%",
    "canaryRecords": 10,
    "shards": 3,
    "resources": {"limits": {"memory": "1Gi"}},
    "schedule": "0 9 * * *",
    "timeZone": "Europe/Rome",
    "concurrencyPolicy": "Allow",
    "successfulJobsHistoryLimit": 2,
    "failedJobsHistoryLimit": 0,
}
DEFAULTS = Defaults(
    propagated_labels=("kueue.x-k8s.io/queue-name",), excluded_annotations=("example.com/*",)
)


def parent(**spec: object) -> InferenceRun:
    labels = {"kueue.x-k8s.io/queue-name": "gpu", "team": "a"}
    annotations = {
        "example.com/private": "1",
        "team.example/owner": "a",
        wellknown.ANNOTATION_WORKFLOW_ID: "forged",
    }
    metadata = {
        "name": "nightly",
        "namespace": "team",
        "uid": "parent-uid",
        "labels": labels,
        "annotations": annotations,
    }
    return parse_run({"metadata": metadata, "spec": {**SPEC, **spec}})


def child(
    schedule: InferenceRun | None = None, *, workflow_id: str = "w", nominal_time: datetime = DUE
) -> Object:
    return scheduled_run(
        schedule or parent(), workflow_id=workflow_id, nominal_time=nominal_time, defaults=DEFAULTS
    )


def stored(manifest: Object, *, uid: str = "child-uid", **status: object) -> InferenceRun:
    return parse_run(
        {**manifest, "metadata": {**manifest["metadata"], "uid": uid}, "status": status}
    )


def finished(number: int, phase: Phase) -> InferenceRun:
    manifest = child(workflow_id=f"w-{number}", nominal_time=DUE.replace(minute=number))
    ended = DUE.replace(minute=number, second=30).isoformat()
    return stored(manifest, uid=f"uid-{number}", phase=phase, completionTime=ended)


def test_a_schedules_child_inherits_the_execution_and_not_the_schedule() -> None:
    made = child()
    interval = made["spec"].pop("interval")
    assert made["spec"] == {key: SPEC[key] for key in list(SPEC)[:9]}
    assert interval["end"] == rfc3339(DUE)


@pytest.mark.parametrize(
    ("expression", "zone", "due", "start"),
    [
        ("0 9 * * *", "Etc/UTC", "2026-11-21T09:00:00Z", "2026-11-20T09:00:00Z"),
        ("0 9 * * MON-FRI", "Etc/UTC", "2026-11-23T09:00:00Z", "2026-11-20T09:00:00Z"),
        ("30 2 * * *", "Europe/Rome", "2026-03-30T00:30:00Z", "2026-03-29T01:30:00Z"),
        ("30 * * * *", "Europe/Rome", "2026-10-25T01:30:00Z", "2026-10-25T00:30:00Z"),
        ("@every 90m", "Etc/UTC", "2026-11-21T09:00:00Z", "2026-11-21T07:30:00Z"),
    ],
)
def test_a_childs_interval_begins_with_the_time_before_its_own(
    expression: str, zone: str, due: str, start: str
) -> None:
    made = child(parent(schedule=expression, timeZone=zone), nominal_time=parse(due))
    assert made["spec"]["interval"] == {"start": start, "end": due, "timeZone": zone}


@pytest.mark.parametrize(
    ("until", "terms", "is_new", "start"),
    [
        pytest.param(
            "2026-11-20T08:00:00Z",
            {"2026-11-01T00:00:00Z": "0 9 * * *"},
            False,
            "08:00",
            id="not-edited",
        ),
        pytest.param(
            "2026-11-20T02:00:00Z",
            {"2026-11-20T12:00:00Z": "0 9 * * *"},
            False,
            "02:00",
            id="edited",
        ),
        pytest.param(
            "2026-11-19T02:00:00Z",
            {"2026-11-01T00:00:00Z": "0 3 * * *", "2026-11-20T12:00:00Z": "0 9 * * *"},
            False,
            "02:00",
            id="edited-before-the-last-time-was-settled",
        ),
        pytest.param(
            "2026-11-20T12:00:00Z", {"2026-11-20T12:00:00Z": "0 9 * * *"}, True, "08:00", id="new"
        ),
    ],
)
def test_an_edit_leaves_no_gap_between_intervals(
    until: str, terms: dict[str, str], *, is_new: bool, start: str
) -> None:
    account = {
        "until": until,
        "terms": [
            {"since": since, "schedule": schedule, "timeZone": "Europe/Rome"}
            for since, schedule in terms.items()
        ],
        "recent": [] if is_new else [{"time": until, "outcome": "Started"}],
    }
    edited = stored(
        {"metadata": {"name": "nightly", "namespace": "team"}, "spec": SPEC}, times=account
    )
    made = child(edited, nominal_time=DUE.replace(hour=8))
    interval = {
        "start": f"2026-11-20T{start}:00Z",
        "end": "2026-11-21T08:00:00Z",
        "timeZone": "Europe/Rome",
    }
    assert made["spec"]["interval"] == interval


def test_a_schedules_child_is_named_after_parent_and_nominal_time_and_owned_by_the_parent() -> None:
    made = child()["metadata"]
    assert made["name"] == "nightly-20261121090000"
    assert made["annotations"] == {
        "team.example/owner": "a",
        wellknown.ANNOTATION_WORKFLOW_ID: "w",
        wellknown.ANNOTATION_SCHEDULED_TIME: "2026-11-21T09:00:00Z",
    }
    [owner] = made["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (
        "parent-uid",
        True,
        False,
    )


def test_a_schedules_child_inherits_only_queue_labels() -> None:
    made = child()["metadata"]
    assert made["labels"] == {
        "kueue.x-k8s.io/queue-name": "gpu",
        wellknown.LABEL_SCHEDULE_UID: "parent-uid",
    }


def test_the_same_nominal_time_finds_the_same_child() -> None:
    made = child(workflow_id="first", nominal_time=DUE)
    again = child(workflow_id="second", nominal_time=DUE)
    assert adopted(again, stored(made)).standing is SubmissionState.UNDER_WAY


def test_a_run_created_by_hand_with_a_childs_name_is_foreign() -> None:
    made = child()
    by_hand = parse_run(
        {"metadata": {"name": made["metadata"]["name"], "namespace": "team"}, "spec": made["spec"]}
    )
    assert adopted(made, by_hand).reason is Reason.NAME_TAKEN


def submission(**changes: object) -> Object:
    argument = {
        "namespace": "team",
        "configRef": "iris",
        "parameters": {"day": "monday"},
        **changes,
    }
    return submitted_run(parse_submission(argument), workflow_id="daily/2026:11")


def test_a_submitted_run_carries_its_workflows_id_and_the_requests_hash() -> None:
    made = submission(timeoutSeconds=60, labels={"kueue.x-k8s.io/queue-name": "gpu"})
    annotations = made["metadata"]["annotations"]
    assert annotations[wellknown.ANNOTATION_WORKFLOW_ID] == "daily/2026:11"
    assert len(annotations[wellknown.ANNOTATION_REQUEST_HASH]) == 64
    assert made["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "gpu"}
    assert made["spec"] == {
        "configRef": {"name": "iris"},
        "parameters": {"day": "monday"},
        "timeoutSeconds": 60,
    }


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({}, True),
        ({"configRef": {"name": "iris"}}, True),
        ({"parameters": {"day": "tuesday"}}, False),
        ({"timeoutSeconds": 1}, False),
    ],
)
def test_the_same_id_with_a_different_request_is_detected(
    *, changes: dict[str, object], is_same: bool
) -> None:
    status = adopted(submission(**changes), stored(submission()))
    assert (status.reason is not Reason.REQUEST_MISMATCH) is is_same


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        (None, SubmissionState.GONE),
        ("Running", SubmissionState.UNDER_WAY),
        ("Succeeded", SubmissionState.ENDED),
    ],
)
def test_only_a_run_that_has_ended_has_a_result(phase: str | None, state: SubmissionState) -> None:
    status = submission_status(
        RUN, stored(submission(), phase=phase, reason=phase) if phase else None
    )
    assert (status.standing, status.result is not None) == (state, state is SubmissionState.ENDED)


def test_a_run_of_that_name_that_is_being_deleted_or_is_not_the_submissions_is_not_adopted() -> (
    None
):
    wanted = submission()
    deleted = {
        **wanted,
        "metadata": {**wanted["metadata"], "deletionTimestamp": "2026-11-21T08:00:00Z"},
    }
    assert adopted(wanted, stored(deleted)).standing is SubmissionState.GONE
    foreign = {**wanted, "metadata": {**wanted["metadata"], "annotations": {}}}
    assert adopted(wanted, stored(foreign)).reason is Reason.NAME_TAKEN


def test_a_submission_does_not_wait_for_a_copy_that_is_not_executed() -> None:
    copy = stored(
        submission(), phase="Pending", reason="ExecutedBefore", message="to execute it: kubectl"
    )
    status = adopted(submission(), copy)
    assert (status.standing, status.reason) == (SubmissionState.REFUSED, Reason.EXECUTED_BEFORE)
    assert status.message == "to execute it: kubectl"


def test_history_keeps_the_newest_runs_of_each_phase() -> None:
    runs = [finished(number, Phase.SUCCEEDED) for number in (5, 1, 4, 2)]
    runs += [finished(3, Phase.FAILED), finished(6, Phase.FAILED)]
    gone = to_prune(parent(), runs)
    assert [run.metadata.uid for run in gone] == ["uid-1", "uid-2", "uid-3", "uid-6"]


def test_by_default_three_succeeded_runs_and_one_failed_run_are_kept() -> None:
    schedule = parent(successfulJobsHistoryLimit=None, failedJobsHistoryLimit=None)
    runs = [finished(number, Phase.SUCCEEDED) for number in range(5)] + [
        finished(number, Phase.FAILED) for number in (7, 8)
    ]
    assert [run.metadata.uid for run in to_prune(schedule, runs)] == ["uid-0", "uid-1", "uid-7"]


def test_history_limits_affect_neither_active_runs_nor_those_of_others() -> None:
    schedule = parent(successfulJobsHistoryLimit=0)
    under_way = stored(
        child(schedule),
        phase=Phase.RUNNING,
    )
    other = schedule.model_copy(
        update={"metadata": schedule.metadata.model_copy(update={"uid": "other-uid"})}
    )
    foreign = stored(
        child(other),
        phase=Phase.SUCCEEDED,
    )
    labelled = parse_run(
        {
            "metadata": {"name": "by-hand", "labels": {wellknown.LABEL_SCHEDULE_UID: "parent-uid"}},
            "spec": {"configRef": {"name": "iris"}},
            "status": {"phase": "Succeeded"},
        }
    )
    assert to_prune(schedule, [under_way, foreign, labelled]) == []


def test_a_child_knows_its_schedule() -> None:
    assert schedule_of(finished(1, Phase.SUCCEEDED)) == RunRef(
        namespace="team", name="nightly", uid="parent-uid"
    )
    assert schedule_of(stored(submission())) is None


def test_the_result_of_a_run_comes_from_its_status() -> None:
    run = stored(
        submission(),
        phase="Succeeded",
        reason="Succeeded",
        message="150 of 150 records predicted",
        exitCode=0,
        records={"total": 150, "completed": 150},
        delivery="AtLeastOnce",
        output={"location": "table p"},
        duration="7s",
    )
    result = result_of(run)
    assert (result.phase, result.reason, result.exit_code, result.duration) == (
        Phase.SUCCEEDED,
        Reason.SUCCEEDED,
        0,
        "7s",
    )
    assert result.records is not None
    assert (result.records.total, result.records.completed, result.records.failed) == (150, 150, 0)


def test_an_unknown_reason_of_another_version_is_tolerated() -> None:
    result = result_of(
        stored(submission(), phase="Failed", reason="SomethingNew", message="it was new")
    )
    assert (result.phase, result.message) == (Phase.FAILED, "it was new")


def test_the_runs_of_a_schedule_in_progress_are_those_that_it_owns_and_that_have_not_ended() -> (
    None
):
    runs = [
        stored(
            child(workflow_id="w", nominal_time=DUE.replace(minute=number)),
            uid=f"uid-{number}",
            **status,
        )
        for number, status in enumerate(
            ({}, {"phase": "Pending"}, {"phase": "Running"}, {"phase": "Suspended"})
        )
    ]
    foreign = child()
    del foreign["metadata"]["ownerReferences"]
    deleted = child()
    deleted["metadata"]["deletionTimestamp"] = DUE.isoformat()
    others = [
        finished(8, Phase.FAILED),
        finished(9, Phase.SUCCEEDED),
        stored(foreign),
        stored(deleted),
    ]
    assert in_progress(parent().ref, [*others, *reversed(runs)]) == runs


class TwoRuns(StoredObjects):
    """One of which an earlier version, or another client, has written."""

    async def list(self, resource: Resource, namespace: str | None = None, **params: str) -> Object:
        readable = (await super().list(resource, namespace, **params))["items"]
        unreadable = {**readable[0], "status": {"phase": "Unheard of"}}
        return {"items": [unreadable, *readable]}


async def test_a_run_that_cannot_be_read_does_not_stop_its_schedule() -> None:
    run = live_run(phase="Running")
    run["metadata"]["labels"] = {wellknown.LABEL_SCHEDULE_UID: RUN.uid}
    [only] = await list_children(TwoRuns(inferenceruns=run), RUN)
    assert only.status.phase == "Running"


@pytest.mark.parametrize(
    ("other", "expected"), [("08:59:59", True), ("09:00:00", True), ("09:00:01", False)]
)
def test_of_two_runs_created_at_the_same_moment_the_earlier_one_stays(
    other: str,
    expected: bool,  # noqa: FBT001  a parameter of the test
) -> None:
    made = [
        child(workflow_id=f"w-{minute}", nominal_time=DUE.replace(minute=minute))
        for minute in (0, 1)
    ]
    for manifest, created in zip(made, ("09:00:00", other), strict=True):
        manifest["metadata"]["creationTimestamp"] = f"2026-11-21T{created}Z"
    mine, another = stored(made[0], uid="mine"), stored(made[1], uid="another")
    assert overlapping(mine.ref, [mine, another]) == (mine if expected else None)
    assert overlapping(mine.ref, [mine]) is None
    assert overlapping(mine.ref, [another]) is None
