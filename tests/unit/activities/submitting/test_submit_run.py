"""What becomes of a submission whose request to create the run is answered late."""

from typing import cast

from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.objects.events import EventRecorder
from activities.submitting.submission_history import SubmissionHistory
from activities.submitting.submit_run import RunSubmitter
from inferrun.kube.errors import AlreadyExists, NotFound
from inferrun.kube.objects import Object, Resource
from inferrun.kube.runs import RunStore
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.submission import parse_submission
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import live_run
from tests.unit.objects import NOW, RUN
from workflows.messages import SubmissionState, SubmissionStatus, SubmitInput


class LateAnswers(StoredObjects):
    """Has a schedule; the response to the request that creates its run is lost, and the client sends it again."""

    def __init__(self, schedule: Object) -> None:
        super().__init__(inferenceruns=schedule)
        self.made: Object | None = None

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        if name == RUN.name:
            return await super().get(resource, namespace, name)
        if self.made is None:
            raise NotFound("there is none")
        return self.made

    async def create(self, resource: Resource, namespace: str | None, body: Object, **params: str) -> Object:  # noqa: ARG002
        self.made = {**body, "metadata": {**body["metadata"], "namespace": namespace, "uid": "uid-of-the-run"}}
        raise AlreadyExists("it was created by the first request")


async def never(run: RunRef) -> None:
    raise AssertionError(f"{run} must not be cancelled")


async def test_a_run_that_was_created_by_a_request_without_an_answer_is_adopted() -> None:
    stored = live_run(job_uid=None)
    stored["spec"].update(schedule="0 8 * * *")
    api = LateAnswers(stored)
    submitter = RunSubmitter(
        api,
        RunStore(api),
        events=EventRecorder(api, reporter="tests"),
        history=SubmissionHistory(cast("Client", None), task_queue="any"),  # not asked for runs of schedules
        defaults=Defaults,
        cancel=never,
    )
    given = SubmitInput(
        submission=parse_submission({"namespace": RUN.namespace, "parent": {"name": RUN.name, "uid": RUN.uid}}),
        workflow_id="tests",
        nominal_time=NOW.isoformat(),
    )
    status: SubmissionStatus = await ActivityEnvironment().run(submitter.submit_run, given)
    assert status.standing is SubmissionState.UNDER_WAY
    assert status.run is not None
    assert status.run.uid == "uid-of-the-run"
