"""What becomes of a submission whose request to create the run is answered late."""

from inferrun.kube.errors import AlreadyExists
from inferrun.kube.objects import Object, Resource
from tests.unit.activities.one_schedule import OneSchedule, submit
from tests.unit.objects import NOW
from workflows.messages import SubmissionState


class LateAnswers(OneSchedule):
    """The response to the request that creates the run is lost, and the client sends it again."""

    async def create(self, resource: Resource, namespace: str | None, body: Object, **params: str) -> Object:
        await super().create(resource, namespace, body, **params)
        raise AlreadyExists("it was created by the first request")


async def test_a_run_that_was_created_by_a_request_without_an_answer_is_adopted() -> None:
    status = await submit(LateAnswers(), due=NOW, started=NOW)
    assert status.standing is SubmissionState.UNDER_WAY
    assert status.run is not None
    assert status.run.uid == "uid-of-the-run"
