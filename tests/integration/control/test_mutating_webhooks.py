"""Jobs that a mutating webhook of the cluster changes when they are created, and workers that
restart in between."""

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest
from temporalio.testing import ActivityEnvironment

from activities.launch_job import JobLauncher
from activities.verify_output import OutputVerifier
from control.cluster.signers import MAX_SIGNERS, RECORD, record_signer
from control.trust.identity import Installation, SigningKey
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, NotFound
from inferrun.kube.objects import JOBS, LEASES, Object
from inferrun.kube.runs import RunStore
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.verdict import VerdictKind
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun
from inferrun.runner_report import RunnerResult, dump_result
from inferrun.timestamps import rfc3339, utc_now
from tests.integration.control.place import Place
from tests.integration.control.pods import (
    COMMITTED,
    IMAGE,
    NOWHERE,
    Launched,
    jobs_of,
    launch,
    launch_without_status,
    launched,
    launcher_of,
    only_one_job_more,
)
from tests.integration.control.proxy import Json, Proxy
from tests.integration.control.webhooks import mutating
from tests.integration.crds.server import call
from tests.integration.waiting import eventually
from tests.unit.launches import INSTALLATION
from workflows.messages import LaunchResult, LaunchState, VerifyInput, VerifyResult

Restart = Callable[[], Awaitable[Installation]]
Make = Callable[[], Awaitable[InferenceRun]]

REQUESTS = {**NOWHERE["requests"], "example.com/changed": "1"}


def pod_of(job: Json) -> Json:
    spec: Json = job["spec"]["template"]["spec"]
    return spec


def container_of(job: Json) -> Json:
    container: Json = pod_of(job)["containers"][0]
    return container


CHANGES: dict[str, Callable[[Json], object]] = {
    "queue": lambda job: (
        job["metadata"].setdefault("labels", {}).update({"kueue.x-k8s.io/queue-name": "changed"})
    ),
    "pull secret": lambda job: pod_of(job).update(imagePullSecrets=[{"name": "changed"}]),
    "mirror": lambda job: container_of(job).update(
        image=f"changed.example.com/{container_of(job)['image']}"
    ),
    "resources": lambda job: container_of(job).update(
        resources={"requests": REQUESTS, "limits": REQUESTS}
    ),
    "priority": lambda job: pod_of(job).update(priorityClassName="tests-changed"),
    "sidecar": lambda job: pod_of(job)["containers"].append(
        {"name": "changed", "image": "localhost/proxy:1"}
    ),
}


@pytest.fixture(scope="module", autouse=True)
def priority_class(direct: httpx.Client) -> Iterator[None]:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    call(direct, "POST", path, {"metadata": {"name": "tests-changed"}, "value": -7})
    yield
    call(direct, "DELETE", f"{path}/tests-changed")


@pytest.fixture
def restart(api: KubeClient, namespace: str) -> Restart:
    """Starts the only worker again: another process, which records its key as the worker does when
    it starts."""

    async def restarted() -> Installation:
        installation = replace(INSTALLATION, namespace=namespace, signing_key=SigningKey())
        await record_signer(api, installation.signing_key, namespace=namespace)
        return installation

    return restarted


@pytest.fixture
def make(place: Place) -> Make:
    """Creates a run of the built-in runner."""
    return place.built_in


def ours(api: KubeClient, installation: Installation) -> JobLauncher:
    return launcher_of(api, installation=installation, runner_image=IMAGE)


async def verify(verifier: OutputVerifier, of: Launched, *, job_uid: str = "") -> VerifyResult:
    request = VerifyInput(
        run=of.run.ref,
        job_name=of.result.job_name,
        launch=1,
        attempt=1,
        snapshot=of.result.snapshot,
        because="the Pod no longer exists",
        job_uid=job_uid,
    )
    result: VerifyResult = await ActivityEnvironment().run(verifier.verify_output, request)
    return result


async def fail_before_the_status_is_written(
    api: KubeClient, launcher: JobLauncher, run: InferenceRun, proxy: Proxy
) -> None:
    await launch_without_status(launcher, run, proxy)
    await seen_by_the_job_controller(api, run)


async def seen_by_the_job_controller(api: KubeClient, run: InferenceRun) -> None:
    """Wait for its change of the run's Job: a try that meets it would be repeated by Temporal, not
    here."""

    async def seen() -> bool | None:
        statuses = [job.get("status") or {} for job in await jobs_of(api, run)]
        return all("startTime" in status or "conditions" in status for status in statuses) or None

    await eventually(seen, what="the Job controller to write the Job's status")


def is_changed(job: Object) -> bool:
    return "changed" in json.dumps(job["spec"]) + json.dumps(job["metadata"]["labels"])


@pytest.mark.parametrize("change", CHANGES)
async def test_a_launch_is_continued_by_a_restarted_worker_although_a_webhook_changed_its_job(
    api: KubeClient,
    namespace: str,
    restart: Restart,
    make: Make,
    *,
    proxy: Proxy,
    change: str,
) -> None:
    run = await make()
    async with mutating(api, namespace, CHANGES[change]):
        await fail_before_the_status_is_written(api, ours(api, await restart()), run, proxy)
        worker = await restart()
        result = await launch(ours(api, worker), run)

    assert (result.state, result.message) == (LaunchState.LAUNCHED, "")
    [job] = await jobs_of(api, run)
    assert (job["metadata"]["uid"], is_changed(job)) == (result.job_uid, True)
    of = Launched(api, run, result)
    await of.ends(
        0, message=dump_result(RunnerResult(reason=Reason.SUCCEEDED, delivery="ExactlyOnce"))
    )
    await of.is_finished()
    report = await of.inspect(installation=worker)
    assert report.verdict is not None
    assert (report.verdict.kind, report.verdict.delivery) == (VerdictKind.SUCCEEDED, "ExactlyOnce")


@pytest.mark.parametrize("change", CHANGES)
async def test_a_committed_output_is_found_by_a_restarted_worker_although_a_webhook_changed_the_job_that_looks(
    api: KubeClient, namespace: str, restart: Restart, make: Make, *, change: str
) -> None:
    first = await restart()
    of = await launched(api, ours(api, first), await make())
    async with mutating(api, namespace, CHANGES[change]):
        began = await verify(OutputVerifier(api, RunStore(api), installation=first), of)
    looks = of.verifying()
    assert is_changed(await looks.job())
    await looks.ends(0, message=dump_result(COMMITTED))
    await looks.is_finished()

    found = await verify(
        OutputVerifier(api, RunStore(api), installation=await restart()), of, job_uid=began.job_uid
    )

    assert found == VerifyResult(finding=COMMITTED, job_uid=began.job_uid)


async def test_a_verification_whose_start_was_lost_with_its_worker_is_started_again(
    api: KubeClient, restart: Restart, make: Make
) -> None:
    first = await restart()
    of = await launched(api, ours(api, first), await make())
    lost = await verify(OutputVerifier(api, RunStore(api), installation=first), of)
    await seen_by_the_job_controller(api, of.run)

    again = await verify(OutputVerifier(api, RunStore(api), installation=await restart()), of)

    assert again.job_uid not in ("", lost.job_uid)
    assert sorted(job["metadata"]["uid"] for job in await jobs_of(api, of.run)) == sorted(
        (of.result.job_uid, again.job_uid)
    )


async def test_a_job_into_which_our_signature_was_copied_is_replaced_and_never_executed(
    api: KubeClient, restart: Restart, make: Make, proxy: Proxy
) -> None:
    """Its creator has seen the worker's Job before the status named it."""
    run = await make()
    await fail_before_the_status_is_written(api, ours(api, await restart()), run, proxy)
    planted = await plant(api, (await jobs_of(api, run))[0])
    await seen_by_the_job_controller(api, run)

    result = await launch(ours(api, await restart()), run)

    [job] = await jobs_of(api, run)
    assert (result.state, result.job_uid) == (LaunchState.LAUNCHED, job["metadata"]["uid"])
    assert result.job_uid != planted["metadata"]["uid"]
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE


async def test_a_try_that_is_late_to_name_its_job_does_not_end_the_launch_whose_next_try_replaces_it(
    place: Place, restart: Restart, make: Make, proxy: Proxy
) -> None:
    """A slow try of the activity writes the status after the next one has read it, and before that
    one deletes the Job."""
    run, worker = await make(), await restart()
    await fail_before_the_status_is_written(place.api, ours(place.api, worker), run, proxy)
    [late] = await jobs_of(place.api, run)

    async def name_late_job() -> None:
        known = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": late["metadata"]["name"],
            "uid": late["metadata"]["uid"],
        }
        status = {
            "phase": "Pending",
            "reason": "JobCreated",
            "jobStatus": {**known, "namespace": run.metadata.namespace},
        }
        await place.write_status(run, status)

    proxy.before_delete = name_late_job
    result = await launch(ours(place.api, worker), run)

    [job] = await jobs_of(place.api, run)
    stored = await RunStore(place.api).read(run.ref)
    assert stored is not None
    assert stored.status.job_status is not None
    uids = (job["metadata"]["uid"], stored.status.job_status.uid)
    assert (result.state, result.is_adopted, *uids) == (
        LaunchState.LAUNCHED,
        False,
        result.job_uid,
        result.job_uid,
    )


async def test_a_signature_is_of_no_use_for_another_launch(
    api: KubeClient, restart: Restart, make: Make
) -> None:
    run, worker = await make(), await restart()
    first = await launch(ours(api, worker), run)
    [job] = await jobs_of(api, run)
    await plant(api, job, name=f"{first.job_name}-2", is_in_its_place=False)

    second = await launch(ours(api, worker), run, launch=2, attempt=2, snapshot=first.snapshot)

    assert (second.state, second.reason) == (LaunchState.REFUSED, Reason.NAME_TAKEN)


@pytest.mark.parametrize("is_recorded", [True, False])
async def test_a_signature_counts_only_if_its_key_is_recorded_beside_the_worker(
    api: KubeClient, restart: Restart, make: Make, proxy: Proxy, *, is_recorded: bool
) -> None:
    """The key may be one of a user. If the record is lost, a run fails rather than to execute what
    may be foreign."""
    run, stranger = await make(), await restart()
    if not is_recorded:
        stranger = replace(stranger, signing_key=SigningKey())
    await fail_before_the_status_is_written(api, ours(api, stranger), run, proxy)
    [job] = await jobs_of(api, run)

    result = await launch(ours(api, await restart()), run)

    if is_recorded:
        assert result.state is LaunchState.LAUNCHED
        return
    assert (result.state, result.reason) == (LaunchState.REFUSED, Reason.NAME_TAKEN)
    assert [one["metadata"]["uid"] for one in await jobs_of(api, run)] == [job["metadata"]["uid"]]


async def test_a_job_that_was_not_started_does_not_fill_the_quota_for_its_own_launch(
    api: KubeClient, namespace: str, restart: Restart, make: Make, proxy: Proxy
) -> None:
    run, worker = await make(), await restart()
    others = len((await api.list(JOBS, namespace))["items"])
    async with only_one_job_more(api, namespace, than=others):
        await fail_before_the_status_is_written(api, ours(api, worker), run, proxy)

        async def is_launched() -> LaunchResult | None:
            try:
                result = await launch(ours(api, worker), run)
            except (LaunchBlocked, Conflict):  # Temporal tries again
                return None
            return result if result.state is LaunchState.LAUNCHED else None

        await eventually(is_launched, what="the quota to count one Job less")


async def plant(
    api: KubeClient, job: Object, *, name: str = "", is_in_its_place: bool = True
) -> Object:
    """What a user who may create and delete Jobs makes of one of ours: a copy with another image,
    which is started."""
    metadata, spec = job["metadata"], job["spec"]
    if is_in_its_place:
        await api.delete(JOBS, metadata["namespace"], metadata["name"], uid=metadata["uid"])
    pod = {
        **spec["template"]["spec"],
        "containers": [{**spec["template"]["spec"]["containers"][0], "image": "evil:1"}],
    }
    ours = {
        key: value
        for key, value in metadata["labels"].items()
        if key.startswith(("inferrun.dev/", "app."))
    }
    copied = {key: metadata[key] for key in ("annotations", "ownerReferences")}
    body = {
        "metadata": {"name": name or metadata["name"], "labels": ours, **copied},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": ours}, "spec": pod}},
    }
    return await api.create(JOBS, metadata["namespace"], body)


async def test_a_worker_forgets_only_the_keys_of_the_earliest_workers(
    api: KubeClient, namespace: str
) -> None:
    earlier = utc_now() - timedelta(minutes=1)
    many = {
        f"{wellknown.ANNOTATION_SIGNER}{number:052}": rfc3339(earlier)
        for number in range(MAX_SIGNERS)
    }
    with suppress(NotFound):
        known = await api.get(LEASES, namespace, RECORD)
        await api.delete(LEASES, namespace, RECORD, uid=known["metadata"]["uid"])
    await api.create(
        LEASES, namespace, {"metadata": {"name": RECORD, "annotations": many}, "spec": {}}
    )
    key = SigningKey()
    await record_signer(api, key, namespace=namespace)
    found = (await api.get(LEASES, namespace, RECORD))["metadata"]["annotations"]
    assert len(found) == MAX_SIGNERS
    assert f"{wellknown.ANNOTATION_SIGNER}{key.signer}" in found
