"""What the migration does about each object of the earlier controller, from the object alone."""

from datetime import timedelta
from typing import Any

import pytest

from inferrun import wellknown
from inferrun.names import job_base_name
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun
from inferrun.timestamps import rfc3339
from inferrun_krateo.migration import (
    ANNOTATION_SUSPENDED,
    MigrationAction,
    MigrationStep,
    Owned,
    lines,
    outcome_of,
    plan_controllers,
    plan_run,
    plan_secrets,
)
from tests.unit.objects import FINISHED, NOW, STARTED, UID, Json, config, job, run

OLD: Json = {
    "contract": "e30=",
    "conditions": [{"type": "Ready", "status": "True", "reason": "Available"}],
}
FINALIZED: Json = {"finalizers": [wellknown.LEGACY_FINALIZER, "other"]}


def old_job(*, condition: str | None = None, reason: str = "", name: str | None = None) -> Json:
    made = job(condition=condition, reason=reason, message="too many failures")
    made["metadata"]["name"] = name or job_base_name("iris", UID)
    made["status"] |= {"startTime": STARTED, "completionTime": FINISHED}
    return made


def old_pod(code: int, *, at: str = FINISHED) -> Json:
    ended = {"exitCode": code, "finishedAt": at}
    return {
        "status": {"containerStatuses": [{"name": "inference", "state": {"terminated": ended}}]}
    }


def cron_job(*, suspended_for: float | None = None, by_user: bool = False) -> Json:
    since = rfc3339(NOW - timedelta(seconds=suspended_for or 0))
    annotations = {ANNOTATION_SUSPENDED: since} if suspended_for is not None else {}
    spec = {"suspend": by_user or suspended_for is not None}
    return {
        "metadata": {"name": "cron", "uid": "cron-uid", "annotations": annotations},
        "spec": spec,
    }


def planned(of: InferenceRun, owned: Owned | None = None) -> list[MigrationAction]:
    return plan_run({}, of, owned or Owned(), now=NOW)


def steps(actions: list[MigrationAction]) -> list[tuple[MigrationStep, bool]]:
    return [(action.step, action.is_due) for action in actions]


def test_a_finished_run_is_recorded_and_loses_its_finalizer() -> None:
    actions = planned(run(status=OLD, metadata=FINALIZED), Owned([old_job(condition="Complete")]))
    assert steps(actions) == [(MigrationStep.RECORD, True), (MigrationStep.STRIP, True)]
    status = actions[0].change["status"]
    assert (status["phase"], status["exitCode"], status["contract"]) == ("Succeeded", 0, "e30=")
    assert actions[1].change == {"metadata": {"finalizers": ["other"]}}


def test_a_run_without_its_job_ends_with_an_unknown_outcome() -> None:
    [action] = planned(run(status=OLD))
    status = action.change["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "OutcomeUnknown")


def test_a_run_whose_job_runs_waits_with_its_finalizer() -> None:
    assert steps(planned(run(status=OLD, metadata=FINALIZED), Owned([old_job()]))) == [
        (MigrationStep.WAIT, True)
    ]


@pytest.mark.parametrize(
    "status", [{}, {"phase": "Running", "contract": "e30="}, {"phase": "Succeeded"}]
)
def test_nothing_is_planned_for_runs_of_ours(status: Json) -> None:
    assert planned(run(status=status), Owned([old_job()])) == []


def test_a_migrated_run_only_loses_its_finalizer() -> None:
    assert steps(planned(run(status={"phase": "Failed"}, metadata=FINALIZED))) == [
        (MigrationStep.STRIP, True)
    ]


def test_a_paused_run_is_left() -> None:
    paused = {"annotations": {wellknown.ANNOTATION_PAUSED: "true"}, **FINALIZED}
    assert steps(planned(run(status=OLD, metadata=paused))) == [(MigrationStep.LEAVE, True)]
    assert planned(run(metadata={"annotations": {wellknown.ANNOTATION_PAUSED: "true"}})) == []


SCHEDULE: Json = {"schedule": "1 * * * *"}


def test_a_schedule_is_suspended_first_and_handed_over_once_that_has_settled() -> None:
    schedule = run(status=OLD, metadata=FINALIZED, **SCHEDULE)
    assert steps(planned(schedule, Owned(cron_job=cron_job()))) == [
        (MigrationStep.SUSPEND_CRON_JOB, True),
        (MigrationStep.HAND_OVER, False),
        (MigrationStep.STRIP, False),
    ]
    just_now = Owned(cron_job=cron_job(suspended_for=1))
    assert steps(planned(schedule, just_now)) == [
        (MigrationStep.HAND_OVER, False),
        (MigrationStep.STRIP, False),
    ]
    settled = Owned(cron_job=cron_job(suspended_for=6))
    assert steps(planned(schedule, settled)) == [
        (MigrationStep.HAND_OVER, True),
        (MigrationStep.STRIP, True),
    ]


def test_a_schedule_waits_for_the_jobs_of_its_cron_job() -> None:
    schedule, owned = run(status=OLD, **SCHEDULE), Owned([old_job()], cron_job=cron_job())
    assert steps(planned(schedule, owned)) == [
        (MigrationStep.SUSPEND_CRON_JOB, True),
        (MigrationStep.WAIT, True),
    ]


def test_a_cron_job_that_a_user_suspended_suspends_the_schedule() -> None:
    owned = Owned(cron_job=cron_job(by_user=True))
    assert steps(planned(run(status=OLD, **SCHEDULE), owned))[0] == (
        MigrationStep.SUSPEND_RUN,
        True,
    )
    assert steps(planned(run(status=OLD, suspend=True, **SCHEDULE), owned)) == [
        (MigrationStep.HAND_OVER, True)
    ]


def test_a_schedule_that_was_handed_over_fires_only_once_even_if_its_cron_job_was_resumed() -> None:
    handed_over = run(status={"phase": "Scheduled"}, **SCHEDULE)
    assert planned(handed_over, Owned(cron_job=cron_job(suspended_for=60))) == []
    assert steps(planned(handed_over, Owned(cron_job=cron_job()))) == [
        (MigrationStep.SUSPEND_CRON_JOB, True)
    ]


def test_a_schedule_that_is_not_valid_stays_with_its_cron_job() -> None:
    [action] = planned(run(status=OLD, schedule="0 0 30 2 *"), Owned(cron_job=cron_job()))
    assert action.step is MigrationStep.MANUAL
    assert "spec.schedule" in action.why


@pytest.mark.parametrize(
    ("code", "reason"),
    [(2, Reason.INVALID_CONTRACT), (4, Reason.INFERENCE_FAILED), (77, Reason.RUNNER_FAILED)],
)
def test_the_exit_code_of_the_last_pod_is_the_reason(*, code: int, reason: Reason) -> None:
    outcome = outcome_of(
        old_job(condition="Failed"), [old_pod(3, at=STARTED), old_pod(code, at=FINISHED)]
    )
    assert (outcome.reason, outcome.exit_code) == (reason, code)


def test_a_failed_job_without_pods_has_no_exit_code() -> None:
    outcome = outcome_of(old_job(condition="Failed"), [])
    assert (outcome.reason, outcome.exit_code) == (Reason.RUNNER_FAILED, None)
    assert "too many failures" in outcome.message


def test_secrets_of_other_namespaces_are_listed_with_the_command_that_copies_them() -> None:
    call = {"api": {"endpointRef": {"name": "handler", "namespace": "central"}}}
    given = config(storage={"input": {"krateo": call}, "output": {"krateo": call}})
    [action] = plan_secrets([run()], [given])
    assert (action.step, action.why) == (
        MigrationStep.MANUAL,
        "inferrun copy-secret handler --from central --to models",
    )


@pytest.mark.parametrize(
    ("image", "replicas", "is_found"),
    [
        ("ghcr.io/krateoplatformops/kserve-controller:0.1.3", 1, True),
        ("registry:5000/kserve-controller@sha256:ab", 1, True),
        ("ghcr.io/krateoplatformops/kserve-controller:0.1.3", 0, False),
        ("kserve/kserve-controller-manager:v0.15", 1, False),
    ],
)
def test_the_earlier_controller_is_found_by_its_image(
    *, image: str, replicas: int, is_found: bool
) -> None:
    template = {"spec": {"containers": [{"image": image}]}}
    deployment: Any = {
        "metadata": {"name": "any", "namespace": "old"},
        "spec": {"replicas": replicas, "template": template},
    }
    assert bool(plan_controllers([deployment])) is is_found


def test_a_secret_that_is_named_like_a_command_is_quoted_in_the_command() -> None:
    """The earlier controller's definition allowed any name."""
    storage = {
        "krateo": {
            "api": {"endpointRef": {"name": "a; curl x | sh\x1b[2J", "namespace": "central"}}
        }
    }
    of_config = config(storage={"input": storage})
    of_run = run(configRef={"name": of_config.metadata.name})
    [action] = plan_secrets([of_run], [of_config])
    assert action.why == "inferrun copy-secret 'a; curl x | sh' --from central --to models"
    assert all(line.isprintable() for line in lines([action]))


def test_the_table_is_aligned() -> None:
    actions = planned(run(status=OLD, metadata=FINALIZED), Owned([old_job(condition="Complete")]))
    rows = list(lines(actions))
    assert rows[0].startswith("ACTION")
    assert len({row.index("InferenceRun") for row in rows[1:]}) == 1
