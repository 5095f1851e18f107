"""What becomes of a submission whose request to create the run is answered late, or beside another
one."""

from datetime import datetime, timedelta

import pytest
from temporalio.exceptions import ApplicationError

from inferrun.kube.errors import AlreadyExists, Conflict
from inferrun.kube.objects import RUNS, Object, Resource
from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.run_result import RunResult
from inferrun.timestamps import rfc3339
from tests.unit.activities.one_schedule import NoHistory, OneSchedule, submit
from tests.unit.objects import NOW, RUN
from workflows.messages import SubmissionState, SubmissionStatus


class LateAnswers(OneSchedule):
    """The response to the request that creates the run is lost, and the client sends it again."""

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, **params: str
    ) -> Object:
        await super().create(resource, namespace, body, **params)
        raise AlreadyExists("it was created by the first request")


async def test_a_run_that_was_created_by_a_request_without_an_answer_is_adopted() -> None:
    status = await submit(LateAnswers(), due=NOW, started=NOW)
    assert status.standing is SubmissionState.UNDER_WAY
    assert status.run is not None
    assert status.run.uid == "uid-of-the-run"


class TwoAtOnce(OneSchedule):
    """Another run of the schedule is created at the same moment as the one that is submitted. That
    is launched once it has been listed so often: its status then names its Job.
    """

    def __init__(self, *, launched_after: int | None) -> None:
        super().__init__()
        self.cancelled: list[RunRef] = []
        self.is_deleted = False
        self._looks_left = launched_after

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, **params: str
    ) -> Object:
        if resource is not RUNS:
            return body
        made = await super().create(resource, namespace, body, **params)
        made["metadata"].update(creationTimestamp=rfc3339(NOW), resourceVersion="1")
        self._launch_if_due()
        return made

    async def list(self, resource: Resource, namespace: str | None = None, **params: str) -> Object:
        if resource is not RUNS or self.made is None or self.is_deleted:
            return await super().list(resource, namespace, **params)
        other = {
            **self.made,
            "metadata": {**self.made["metadata"], "name": "other", "uid": "other"},
        }
        found = {"items": [other, {**self.made, "metadata": {**self.made["metadata"]}}]}
        if self._looks_left:
            self._looks_left -= 1
        self._launch_if_due()
        return found

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str,
        version: str | None = None,
        grace: int | None = None,
    ) -> None:
        assert self.made is not None
        if version is not None and version != self.made["metadata"]["resourceVersion"]:
            raise Conflict("it has changed", status=409)
        self.is_deleted = resource is RUNS

    async def cancel(self, run: RunRef) -> None:
        self.cancelled.append(run)

    def _launch_if_due(self) -> None:
        if self.made is not None and self._looks_left == 0:
            job = {"kind": "Job", "name": "job", "uid": "job"}
            metadata = {**self.made["metadata"], "resourceVersion": "2"}
            self.made = {
                **self.made,
                "metadata": metadata,
                "status": {"phase": "Pending", "jobStatus": job},
            }


async def test_of_two_runs_that_must_not_overlap_one_is_taken_back_before_it_is_executed() -> None:
    api = TwoAtOnce(launched_after=None)
    with pytest.raises(ApplicationError, match="at the same moment"):
        await submit(api, due=NOW, started=NOW, cancel=api.cancel)
    assert api.is_deleted
    assert api.cancelled == []


@pytest.mark.parametrize("looks", [0, 1])
async def test_a_run_that_was_launched_by_then_is_the_run_of_its_time_and_is_cancelled(
    looks: int,
) -> None:
    api = TwoAtOnce(launched_after=looks)
    status = await submit(api, due=NOW, started=NOW, cancel=api.cancel)
    assert status.standing is SubmissionState.UNDER_WAY
    assert not api.is_deleted
    assert api.cancelled == [status.run]


DELETED = SubmissionStatus(standing=SubmissionState.GONE, run=RUN, reason=Reason.RUN_DELETED)


@pytest.mark.parametrize(("tries", "is_created"), [(1, True), (2, False)])
async def test_a_run_that_was_deleted_after_its_creator_died_is_not_created_again(
    tries: int, *, is_created: bool
) -> None:
    """The worker was killed before Temporal heard that the run was created, so the activity is
    tried again."""
    api = OneSchedule()
    history = NoHistory(DELETED)
    status = await submit(api, due=NOW, started=NOW, history=history, tries=tries, configRef="iris")
    assert (api.made is not None) is is_created
    assert (status == DELETED) is not is_created


@pytest.mark.parametrize(("tries", "reason"), [(1, Reason.MISSED), (2, Reason.RUN_DELETED)])
async def test_a_run_of_a_schedule_that_was_deleted_after_its_creator_died_was_not_missed(
    tries: int, reason: Reason
) -> None:
    due = NOW.replace(hour=8, minute=0, second=0, microsecond=0)
    api = OneSchedule()
    (await api.get(RUNS, RUN.namespace, RUN.name))["status"] = {"times": {"until": rfc3339(due)}}
    status = await submit(api, due=due, started=due, history=NoHistory(DELETED), tries=tries)
    assert status.reason is reason
    assert api.made is None or api.made["kind"] == "Event"


@pytest.mark.parametrize(
    ("reason", "is_created"), [(Reason.SUCCEEDED, False), (Reason.RUN_DELETED, True)]
)
async def test_a_triggered_run_that_ended_and_was_pruned_after_its_creator_died_is_not_created_again(
    reason: Reason, *, is_created: bool
) -> None:
    """One that was taken back, because it overlapped with another one, is."""
    phase = Phase.SUCCEEDED if reason is Reason.SUCCEEDED else Phase.FAILED
    result = RunResult(**RUN.model_dump(), phase=phase, reason=reason)
    ended = SubmissionStatus(standing=SubmissionState.ENDED, run=RUN, result=result)
    api = OneSchedule()
    status = await submit(api, due=NOW, started=NOW, history=NoHistory(ended), tries=2)
    assert (api.made is not None) is is_created
    assert (status == ended) is not is_created


@pytest.mark.parametrize(
    ("due", "started", "refusal"),
    [
        (NOW, NOW - timedelta(seconds=11), "when a run is due"),
        (NOW + timedelta(seconds=7), NOW + timedelta(seconds=7), "was not started by one"),
    ],
    ids=["early", "not a time of the schedule"],
)
async def test_whoever_claims_to_be_a_schedule_is_refused(
    due: datetime, started: datetime, refusal: str
) -> None:
    with pytest.raises(ApplicationError, match=refusal) as refused:
        await submit(OneSchedule(), due=due, started=started, is_triggered=False)
    assert refused.value.non_retryable


async def test_a_schedule_fires_by_the_clock_of_the_server_that_fires_it() -> None:
    """The clocks of Temporal's processes differ."""
    status = await submit(
        OneSchedule(), due=NOW, started=NOW - timedelta(seconds=9), is_triggered=False
    )
    assert status.run is not None
