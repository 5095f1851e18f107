"""What a status says of Pods and Jobs that admission, or somebody else, has changed."""

from collections.abc import Callable

import pytest

from activities.launch_job import JobLauncher
from activities.verify_output import OutputVerifier
from control.cluster.job_objects import list_pods_and_others
from control.launches.observation import Before, Doing, Observation, observe
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Forbidden
from inferrun.kube.objects import JOBS, PODS, Object
from inferrun.kube.runs import RunStore
from inferrun.launches.manifests import NOT_STARTED
from inferrun.launches.pod_shape import shape_of_job
from inferrun.launches.verdict import VerdictKind
from inferrun.reasons import Reason
from inferrun.timestamps import utc_now
from tests.integration.control.place import Place
from tests.integration.control.pods import IMAGE, NOWHERE, STARTED, Launched, launcher_of
from tests.integration.control.test_mutating_webhooks import container_of
from tests.integration.control.test_verify_output import verify
from tests.integration.control.webhooks import denying_updates, mutating
from tests.integration.waiting import eventually
from tests.unit.launches import INSTALLATION
from workflows.messages import LaunchStage, LaunchState

LIMITED = {"requests": {**NOWHERE["requests"], "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
DENIAL = "team policy: jobs need a cost-center label"


def container(pod: Object) -> Object:
    found: Object = pod["spec"]["containers"][0]
    return found


CHANGES: dict[str, tuple[Callable[[Object], object], str]] = {
    "image": (
        lambda pod: container(pod).update(image="mirror.invalid/runner:1"),
        f"image 'mirror.invalid/runner:1' instead of '{IMAGE}'",
    ),
    "command": (
        lambda pod: container(pod).update(
            command=["vault-env", "python"], args=["-m", "inferrun_runner"]
        ),
        "another command ['vault-env', 'python'] and another args",
    ),
    "variable": (
        lambda pod: (
            container(pod)
            .setdefault("env", [])
            .append({"name": "INFERRUN_BATCH_ROWS", "value": "1"})
        ),
        "another value of INFERRUN_BATCH_ROWS",
    ),
}


@pytest.fixture
def launcher(api: KubeClient) -> JobLauncher:
    """The built-in runner has an image."""
    return launcher_of(api, runner_image=IMAGE)


@pytest.fixture
async def ours(place: Place) -> Launched:
    """A launched run of the built-in runner with a memory limit."""
    return await place.launched(await place.built_in(resources=LIMITED))


@pytest.fixture
def verifier(api: KubeClient) -> OutputVerifier:
    return OutputVerifier(api, RunStore(api), installation=INSTALLATION)


async def seen(of: Launched, *, before: Before | None = None) -> Observation:
    """What the shim observes."""
    job = await of.job()
    shape = shape_of_job(job)
    pods, changed = await list_pods_and_others(of.api, of.namespace, of.result.job_uid, shape=shape)
    return observe(
        job,
        pods,
        events=(),
        ends=(),
        before=before or Before(),
        now=utc_now(),
        quiet_seconds=0,
        node_lost_seconds=300,
        changed=changed,
    )


@pytest.mark.parametrize("change", CHANGES)
async def test_a_pod_that_only_admission_of_pods_has_changed_is_reported_while_it_exists(
    place: Place, *, change: str
) -> None:
    apply, words = CHANGES[change]
    async with mutating(place.api, place.namespace, apply, of=PODS):
        of = await place.launched(await place.built_in())
        pod = await of.pod()
    observed = await seen(of)
    assert (observed.doing, observed.wait and observed.wait.reason) == (
        Doing.WAITING,
        Reason.POD_CHANGED,
    )
    assert observed.wait is not None
    assert (
        f"Pod {pod['metadata']['name']} does not execute what its Job says ({words})"
        in observed.wait.message
    )
    stopped = await of.stop(only_waiting=True)
    assert words in stopped.report.wait_message


@pytest.mark.parametrize(
    ("code", "reason"), [(0, Reason.RESULT_UNREADABLE), (1, Reason.POD_CHANGED)]
)
async def test_the_end_of_a_pod_that_admission_has_changed_is_reported_with_the_difference(
    place: Place, *, code: int, reason: Reason
) -> None:
    apply, words = CHANGES["image"]
    async with mutating(place.api, place.namespace, apply, of=PODS):
        of = await place.launched(await place.built_in())
        await of.pod()
    await of.ends(code)
    await of.is_finished()
    verdict = (await of.inspect()).verdict
    assert verdict is not None
    assert (verdict.kind, verdict.reason) == (VerdictKind.FAILED, reason)
    assert words in verdict.message


async def test_a_running_pod_whose_image_is_edited_is_not_said_to_be_gone(
    api: KubeClient, ours: Launched
) -> None:
    pod = await ours.pod()
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    await ours.runs()
    containers = [{**container(pod), "image": "edited:1"}]  # a merge patch replaces lists
    await api.patch(PODS, ours.namespace, name, {"spec": {"containers": containers}})
    observed = await seen(ours, before=Before(is_running=True, pod_uid=uid))
    assert (observed.doing, observed.pod_uid) == (Doing.TAKEN, uid)
    report = await ours.inspect(pod_uid=uid)
    assert (report.stage, report.loss_reason) == (LaunchStage.POD_LOST, Reason.POD_CHANGED)
    assert (
        f"Pod {name} does not execute what its Job says (image 'edited:1' instead of '{IMAGE}')"
        in report.loss_message
    )
    later = await seen(ours)
    assert later.wait is not None
    assert later.wait.reason is Reason.POD_CHANGED


async def test_a_container_that_exceeds_a_limit_of_admission_is_reported_with_that_limit(
    place: Place,
) -> None:
    lower = {"requests": {**NOWHERE["requests"], "memory": "20Mi"}, "limits": {"memory": "40Mi"}}
    async with mutating(
        place.api, place.namespace, lambda pod: container(pod).update(resources=lower), of=PODS
    ):
        of = await place.launched(await place.built_in(resources=LIMITED))
        await of.pod()
    ended = {"exitCode": 137, "reason": "OOMKilled", "startedAt": STARTED, "finishedAt": STARTED}
    await of.tell({"terminated": ended}, phase="Failed")
    await of.is_finished()
    verdict = (await of.inspect()).verdict
    assert verdict is not None
    assert verdict.message == (
        "the container used more memory than 40Mi; this limit was set by something else, such as a LimitRange, a webhook or a "
        "resize: the config says 2Gi"
    )


async def test_an_injected_init_container_that_fails_is_named(place: Place) -> None:
    init = {"name": "istio-init", "image": "localhost/init:1", "imagePullPolicy": "Never"}
    async with mutating(
        place.api, place.namespace, lambda pod: pod["spec"].update(initContainers=[init]), of=PODS
    ):
        of = await place.launched(await place.built_in())
        pod = await of.pod()
    status = {
        "name": "istio-init",
        "image": "localhost/init:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
    }
    ended = {"exitCode": 7, "reason": "Error", "message": "iptables: denied"}
    waits = {"waiting": {"reason": "PodInitializing"}}
    stuck = {
        **status,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}},
    }
    await of.tell(waits, phase="Pending", initContainerStatuses=[stuck])
    observed = await seen(of)
    assert observed.wait is not None
    assert (
        "init container istio-init, which is not ours (ImagePullBackOff: no such host)"
        in observed.wait.message
    )
    failed = [{**status, "state": {"terminated": ended}}]
    await of.tell(waits, phase="Failed", initContainerStatuses=failed)
    await of.is_finished()
    verdict = (await of.inspect()).verdict
    assert verdict is not None
    assert (
        "init container istio-init, which is not ours, exited with 7 (Error iptables: denied)"
        in verdict.message
    )
    assert f"logs {pod['metadata']['name']} -c istio-init" in verdict.message


async def test_a_job_that_a_time_limit_of_others_ends_says_so(
    api: KubeClient, ours: Launched
) -> None:
    await ours.pod()
    await ours.runs()
    await api.patch(
        JOBS, ours.namespace, ours.result.job_name, {"spec": {"activeDeadlineSeconds": 1}}
    )
    await ours.is_finished()
    verdict = (await ours.inspect()).verdict
    assert verdict is not None
    assert (verdict.kind, verdict.reason, verdict.may_retry) == (
        VerdictKind.FAILED,
        Reason.STOPPED,
        True,
    )
    assert "activeDeadlineSeconds (1) that something else has set" in verdict.message
    assert "DeadlineExceeded Job was active longer than specified deadline" in verdict.message


async def test_an_image_that_admission_of_jobs_has_changed_is_reported_with_the_one_that_was_asked_for(
    place: Place,
) -> None:
    async with mutating(
        place.api,
        place.namespace,
        lambda job: container_of(job).update(image="mirror.invalid/runner:1"),
    ):
        of = await place.launched(await place.built_in())
    await of.pod()
    scheduled = [{"type": "PodScheduled", "status": "True"}]
    await of.tell(
        {"waiting": {"reason": "ErrImagePull", "message": "no such host"}},
        phase="Pending",
        conditions=scheduled,
    )
    observed = await seen(of)
    assert observed.wait is not None
    assert "image 'mirror.invalid/runner:1' cannot be pulled" in observed.wait.message
    assert f"the run asked for '{IMAGE}': fix the webhook or policy" in observed.wait.message


async def test_a_denied_start_of_a_job_is_published_and_tried_again(place: Place) -> None:
    run = await place.built_in()
    async with denying_updates(place.api, place.namespace, DENIAL):
        for _ in range(2):
            denied = await place.waits(run, Reason.POD_REJECTED)
            stored = await RunStore(place.api).read(run.ref)
            assert stored is not None
            assert (stored.status.reason, stored.status.message) == (
                Reason.POD_REJECTED,
                denied.message,
            )
            assert denied.message.startswith("the start of Job ")
            assert DENIAL in denied.message
            assert stored.status.job_status is not None
            job = await place.job(stored.status.job_status.name or "")
            assert job["spec"]["parallelism"] == NOT_STARTED
            assert (
                await seen(
                    Launched(
                        place.api,
                        run,
                        denied.model_copy(update={"job_name": job["metadata"]["name"]}),
                    )
                )
            ).wait is None

    async def is_started() -> Launched | None:
        result = await place.launch(run)
        return Launched(place.api, run, result) if result.state is LaunchState.LAUNCHED else None

    of = await eventually(is_started, what="the policy to be gone")
    assert of.result.job_uid == job["metadata"]["uid"]
    await of.pod()


async def test_the_start_of_a_suspended_runs_job_is_not_tried(place: Place) -> None:
    """Otherwise a policy that denies it would keep the run from being suspended."""
    run = await place.built_in()
    async with denying_updates(place.api, place.namespace, DENIAL):
        await place.launch(run)
        await place.edit(run, suspend=True)
        result = await place.launch(run)
    assert (result.state, result.is_suspended, result.is_adopted) == (
        LaunchState.LAUNCHED,
        True,
        True,
    )


async def test_a_denied_start_of_a_job_that_lost_its_parallelism_is_published(
    api: KubeClient, namespace: str, ours: Launched
) -> None:
    await api.patch(JOBS, ours.namespace, ours.result.job_name, {"spec": {"parallelism": 0}})
    async with denying_updates(api, namespace, DENIAL):
        with pytest.raises(Forbidden):
            await ours.inspect()
    assert DENIAL in ((await ours.says(Reason.POD_REJECTED)).status.message or "")


async def test_a_denied_start_of_a_verification_is_published(
    api: KubeClient, namespace: str, verifier: OutputVerifier, ours: Launched
) -> None:
    async with denying_updates(api, namespace, DENIAL):
        with pytest.raises(Forbidden):
            await verify(verifier, ours, since=utc_now())
    assert DENIAL in ((await ours.says(Reason.VERIFYING)).status.message or "")


@pytest.mark.parametrize("kind", ["changed", "silent", "init"])
async def test_a_verification_that_could_not_find_out_says_why(
    api: KubeClient, namespace: str, verifier: OutputVerifier, ours: Launched, *, kind: str
) -> None:
    words = {
        "changed": CHANGES["image"][1],
        "silent": "its container exited with 137",
        "init": "init container istio-init, which is not ours, exited with 7",
    }
    if kind == "changed":
        async with mutating(api, namespace, CHANGES["image"][0], of=PODS):
            began = await verify(verifier, ours)
            asking = ours.verifying()
            await asking.pod()
        await asking.ends(0)
    else:
        began = await verify(verifier, ours)
        asking = ours.verifying()
        await api.patch(JOBS, namespace, asking.result.job_name, {"spec": {"backoffLimit": 0}})
        init = {
            "name": "istio-init",
            "image": "a",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
        }
        failed = [{**init, "state": {"terminated": {"exitCode": 7, "reason": "Error"}}}]
        if kind == "silent":
            await asking.tell(
                {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, phase="Failed"
            )
        else:
            await asking.tell(None, phase="Failed", initContainerStatuses=failed)
    await asking.is_finished()
    finding = (await verify(verifier, ours, job_uid=began.job_uid)).finding
    assert finding is not None
    assert "could not find out: " in finding.message
    assert words[kind] in finding.message
