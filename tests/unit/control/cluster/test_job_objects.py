"""What belongs to a Job in a namespace whose users have added objects of any number and size."""

import pytest

from control.cluster.job_marks import (
    MAX_JOBS,
    mark_ended,
    mark_limited,
    mark_stopped,
    set_time_to_live,
    start_job,
)
from control.cluster.job_objects import list_events, list_pods_and_others
from inferrun.kube.decoding import Page
from inferrun.kube.errors import Forbidden, KubeError, NotFound, PageTooLarge
from inferrun.kube.objects import Object, Resource
from inferrun.run_ref import RunRef
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import JOB_UID, live_job, live_pod

RUN = RunRef(namespace="team", name="a", uid="u")


class LargeEvents(StoredObjects):
    """A page of Events that is not read."""

    async def page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        max_bytes: int | None = None,
        **params: str,
    ) -> Page:
        raise PageTooLarge(
            f"{resource.plural} of {namespace} have more than {max_bytes} bytes: {params}"
        )


class ManyObjects(StoredObjects):
    """The same object many times."""

    def __init__(self, item: Object, *, count: int) -> None:
        super().__init__()
        self._items = [item] * count

    async def list(self, resource: Resource, namespace: str | None = None, **params: str) -> Object:
        return {"items": self._items}


async def test_events_that_are_too_large_say_nothing() -> None:
    assert await list_events(LargeEvents(), "team", {"metadata": {"uid": "u"}}) == []


class NumberedEvents(StoredObjects):
    """As many Events as a page may have, in the order of their names, in which the time of the
    first occurrence comes last."""

    async def page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        max_bytes: int | None = None,
        **params: str,
    ) -> Page:
        found = [
            {"metadata": {"name": f"pod.{number:x}"}, "message": f"{number}"}
            for number in range(100)
        ]
        return Page(version="1", items=found[: int(params["limit"])])


async def test_the_newest_of_many_events_is_read() -> None:
    """Kubelet, scheduler and autoscaler may each create about forty Events on one Pod before the
    first of them expires."""
    events = await list_events(NumberedEvents(), "team", {"metadata": {"uid": "u"}})
    assert events[-1]["message"] == "99"


async def test_of_listed_pods_only_what_rules_read_is_kept() -> None:
    pod = live_pod()
    pod["metadata"]["labels"] |= {f"label-{number}": "" for number in range(1000)}
    pods, others = await list_pods_and_others(
        ManyObjects(pod, count=3), "team", JOB_UID, shape="other"
    )
    assert (len(pods), len(others)) == (0, 3)
    assert len(others[0]["metadata"]["labels"]) < 5


async def test_jobs_that_users_add_to_a_run_do_not_cost_a_request_each() -> None:
    job = {"metadata": {"name": "planted", "uid": "u", "ownerReferences": [{"uid": RUN.uid}]}}
    api = ManyObjects(job, count=10 * MAX_JOBS)
    await set_time_to_live(api, RUN, seconds=60)
    assert len(api.patched) == MAX_JOBS


class Denying(StoredObjects):
    """No change is admitted."""

    def __init__(self, error: KubeError) -> None:
        super().__init__()
        self._error = error

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        sub: str | None = None,
    ) -> Object:
        raise self._error


@pytest.mark.parametrize("error", [Forbidden("a policy denied the request"), NotFound("gone")])
async def test_no_outcome_waits_for_a_mark_that_is_not_admitted(error: KubeError) -> None:
    await set_time_to_live(Denying(error), RUN, seconds=60, only_job=("job", "uid"))
    await mark_ended(Denying(error), RUN, "job")
    await mark_limited(Denying(error), live_job(), seconds_left=60)
    await mark_stopped(Denying(error), live_job())


async def test_a_job_whose_start_is_denied_is_tried_again() -> None:
    with pytest.raises(Forbidden):
        await start_job(Denying(Forbidden("not now")), live_job(spec={"parallelism": 0}))
