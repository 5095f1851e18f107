"""Why a run is waiting, in one line with the fix."""

import json
import shlex
from typing import Any

import pytest

from control.launches.diagnosis import Wait, diagnose, missing_secret
from control.launches.trimming import trim_events, trim_job, trim_pod
from inferrun import wellknown
from inferrun.reasons import Reason
from inferrun.text import one_line
from tests.unit.objects import NOW, STARTED, Json, at, event, job, pod, terminated, waiting

UNSCHEDULED = "0/1 nodes are available: 1 Insufficient cpu."


def wait_of(
    of: Json | None,
    events: list[Json] | None = None,
    *,
    named: dict[str, str] | str = "",
    by: Json | None = None,
    seen: str = "",
    changed: Json | None = None,
) -> Wait:
    """Of untrimmed and trimmed objects: both must give the same. `named`: the namespaces that the
    references to Secrets name."""
    a_job, given = by or job(), events or []
    if named:
        text = named if isinstance(named, str) else json.dumps(named)
        a_job["metadata"]["annotations"][wellknown.ANNOTATION_SECRET_NAMESPACES] = text
    kept_pod = None
    if of is not None:
        of["metadata"]["ownerReferences"] = [{"uid": "job-uid", "controller": True}]
        kept_pod = trim_pod(of)
        assert kept_pod is not None
    others: list[Json] = []
    kept_others: list[Json] = []
    if changed is not None:
        changed["metadata"]["ownerReferences"] = [{"uid": "job-uid", "controller": True}]
        others, kept_others = [changed], list(filter(None, [trim_pod(changed)]))
    wait = diagnose(a_job, of, given, now=NOW, seen=seen, changed=others)
    kept_job, kept_events = trim_job(a_job), list(trim_events(given))
    assert kept_job is not None
    assert (
        diagnose(kept_job, kept_pod, kept_events, now=NOW, seen=seen, changed=kept_others) == wait
    )
    return wait


def without_pod(a_job: Json, *events: Json) -> Wait:
    return wait_of(None, list(events), by=a_job)


def pulling_with_secret(reason: str) -> Json:
    """A Pod that waits for its image, which needs the pull secret `pull`."""
    of = pod(waiting(reason))
    of["spec"]["imagePullSecrets"] = [{"name": "pull"}]
    return of


def unscheduled(message: str) -> Json:
    return pod(conditions=[{"type": "PodScheduled", "status": "False", "message": message}])


def test_a_job_without_a_pod_was_just_created() -> None:
    wait = without_pod(job())
    assert (wait.reason, wait.is_warning) == (Reason.JOB_CREATED, False)


def test_a_suspended_job_is_queued_whatever_its_events_are() -> None:
    wait = without_pod(job(spec={"suspend": True}), event("FailedCreate", "exceeded quota: small"))
    assert (wait.reason, wait.is_warning) == (Reason.QUEUED, False)


def test_an_exceeded_quota_is_reported_with_its_numbers() -> None:
    words = 'pods "inf-iris-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1'
    wait = without_pod(job(), event("FailedCreate", f"Error creating: {words}"))
    assert (wait.reason, wait.is_warning) == (Reason.QUOTA_EXCEEDED, True)
    assert "used: pods=1, limited: pods=1" in wait.message


def test_a_quota_that_counts_ended_pods_is_told_from_others() -> None:
    words = (
        "exceeded quota: small, requested: count/pods=1, used: count/pods=1, limited: count/pods=1"
    )
    assert without_pod(job(), event("FailedCreate", words)).lacks_room
    assert not without_pod(
        job(), event("FailedCreate", words.replace("count/pods", "pods"))
    ).lacks_room


def test_a_quota_that_counts_ended_pods_is_reported_with_what_to_do() -> None:
    words = (
        "exceeded quota: small, requested: count/pods=1, used: count/pods=1, limited: count/pods=1"
    )
    message = without_pod(job(), event("FailedCreate", words)).message
    assert "used: count/pods=1, limited: count/pods=1" in message
    assert "also counts Pods that have ended" in message
    assert "kubectl -n models delete pods --field-selector=status.phase=Failed" in message
    others = without_pod(job(), event("FailedCreate", words.replace("count/pods", "pods"))).message
    assert "have ended" not in others


def test_a_rejected_pod_is_reported_with_the_api_servers_message() -> None:
    wait = without_pod(job(), event("FailedCreate", 'serviceaccount "runner" not found'))
    assert (wait.reason, wait.is_warning) == (Reason.POD_REJECTED, True)
    assert 'serviceaccount "runner" not found' in wait.message


def test_the_latest_rejection_is_reported() -> None:
    wait = without_pod(
        job(),
        event("FailedCreate", "exceeded quota: new", age=1),
        event("FailedCreate", "other", age=50),
    )
    assert wait.reason is Reason.QUOTA_EXCEEDED


def test_an_event_series_is_dated_by_its_last_occurrence() -> None:
    series = {
        **event("FailedCreate", "exceeded quota: a", age=900),
        "series": {"lastObservedTime": at(0)},
    }
    assert (
        without_pod(job(), event("FailedCreate", "other", age=5), series).reason
        is Reason.QUOTA_EXCEEDED
    )


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
def test_a_failed_image_pull_is_reported_with_the_image_the_registrys_message_and_the_fix(
    reason: str,
) -> None:
    events = [
        event("Failed", 'Failed to pull image "own:1": manifest unknown'),
        event("Failed", "Error: ErrImagePull"),
    ]
    wait = wait_of(pod(waiting(reason, "Back-off pulling image")), events)
    assert (wait.reason, wait.is_warning) == (Reason.IMAGE_PULL_FAILED, True)
    assert "image 'registry/own:1' cannot be pulled" in wait.message
    assert "manifest unknown" in wait.message
    assert "fix spec.image in the InferenceConfig, then delete and recreate the run" in wait.message


def test_without_events_the_kubelets_message_is_reported_with_the_image_of_our_container() -> None:
    of = pod(waiting("ErrImagePull", "no route to host"))
    of["spec"]["containers"].insert(0, {"name": "proxy", "image": "mesh/proxy:1"})
    message = wait_of(of).message
    assert "no route to host" in message
    assert "registry/own:1" in message


def test_a_pull_that_fails_for_lack_of_a_secret_names_the_secret_and_the_copy_command() -> None:
    events = [
        event(
            "FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (pull)"
        )
    ]
    wait = wait_of(pulling_with_secret("ErrImagePull"), events, named={"pull": "shared"})
    assert (wait.reason, wait.is_warning) == (Reason.IMAGE_PULL_SECRET_NOT_FOUND, True)
    assert "Secret 'pull' does not exist in namespace models" in wait.message
    assert "inferrun copy-secret pull --from shared --to models" in wait.message


def test_a_missing_pull_secret_is_ignored_while_the_pull_has_not_failed() -> None:
    events = [
        event(
            "FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (pull)"
        )
    ]
    assert wait_of(pulling_with_secret("ContainerCreating"), events).reason is Reason.POD_SCHEDULED


@pytest.mark.parametrize(
    ("age", "reason"), [(19, Reason.POD_SCHEDULED), (25, Reason.IMAGE_PULLING)]
)
def test_a_slow_pull_is_reported(age: int, reason: Reason) -> None:
    wait = wait_of(pod(waiting("ContainerCreating"), age=age), [event("Pulling", "Pulling image")])
    assert wait.reason is reason
    assert not wait.is_warning


def test_a_finished_pull_is_no_longer_reported() -> None:
    events = [event("Pulling", "Pulling image"), event("Pulled", "pulled")]
    assert wait_of(pod(waiting("ContainerCreating"), age=60), events).reason is Reason.POD_SCHEDULED


def test_an_unschedulable_pod_is_reported_with_the_schedulers_message() -> None:
    wait = wait_of(unscheduled(UNSCHEDULED))
    assert (wait.reason, wait.is_warning) == (Reason.UNSCHEDULABLE, True)
    assert UNSCHEDULED in wait.message


def test_a_missing_claim_is_reported_by_name() -> None:
    wait = wait_of(
        unscheduled('0/1 nodes are available: persistentvolumeclaim "rows" not found. not found')
    )
    assert (wait.reason, wait.is_warning) == (Reason.CLAIM_NOT_FOUND, True)
    assert "PersistentVolumeClaim 'rows' does not exist in the run's namespace" in wait.message


ENDPOINTS = {"iris-endpoint": "demo-system"}
NO_SECRET = event(
    "FailedMount",
    'MountVolume.SetUp failed for volume "endpoint-input" : secret "iris-endpoint" not found',
)


def test_a_missing_secret_is_reported_with_the_command_that_copies_it() -> None:
    wait = wait_of(pod(waiting("ContainerCreating"), age=10), [NO_SECRET], named=ENDPOINTS)
    assert (wait.reason, wait.is_warning) == (Reason.SECRET_NOT_FOUND, True)
    assert wait.message == (
        "Secret 'iris-endpoint' does not exist in namespace models; copy it and the run resumes automatically: "
        "inferrun copy-secret iris-endpoint --from demo-system --to models"
    )


@pytest.mark.parametrize("text", ["not JSON", "[]", '"a"', "[" * 100_000])
def test_a_malformed_annotation_names_no_namespaces(text: str) -> None:
    wait = wait_of(pod(waiting("ContainerCreating")), [NO_SECRET], named=text)
    assert (wait.reason, "copy" in wait.message) == (Reason.SECRET_NOT_FOUND, False)


@pytest.mark.parametrize("hostile", ["$(reboot)", "a; reboot", "`reboot`", "a'b", "a\nb"])
def test_the_copy_command_quotes_names_that_a_shell_would_interpret(hostile: str) -> None:
    command = copy_command(hostile, hostile)
    shown = one_line(hostile)
    assert shlex.split(command) == [
        "inferrun",
        "copy-secret",
        shown,
        "--from",
        shown,
        "--to",
        "models",
    ]


@pytest.mark.parametrize(
    "secret", ["a\x1b[", "a\x9b", "a\x1b]", "a\x1b", "a\x1b[31", "a\x1b(", "a\x1b[m'"]
)
@pytest.mark.parametrize(
    "named", ["; reboot; ", "'; reboot; '", "\x07; reboot #", "\x1b[; reboot #"]
)
def test_an_escape_sequence_takes_no_quotation_mark_with_it(secret: str, named: str) -> None:
    """Users can write Events about their Pods, and the annotation of their Job that names
    namespaces."""
    words = shlex.split(copy_command(secret, named))
    assert words[:2] + words[3:4] + words[5:] == [
        "inferrun",
        "copy-secret",
        "--from",
        "--to",
        "models",
    ]


def copy_command(secret: str, named: str) -> str:
    """As the status shows it."""
    return one_line(missing_secret(secret, namespace="models", named=named)).split(
        "automatically: "
    )[1]


@pytest.mark.parametrize("named", ["", "models"])
def test_a_missing_secret_of_the_runs_own_namespace_must_be_created(named: str) -> None:
    ends = {"iris-endpoint": named}
    wait = wait_of(pod(waiting("ContainerCreating")), [NO_SECRET], named=ends)
    assert wait.message == (
        "Secret 'iris-endpoint' does not exist in namespace models; create it and the run resumes automatically"
    )


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        (
            'configmap "authorities" not found',
            "ConfigMap 'authorities' does not exist in namespace models; create it",
        ),
        (
            "configmap references non-existent config key: cabundle.crt",
            "the ConfigMap in namespace models has no key 'cabundle.crt'; add it and the run resumes automatically",
        ),
    ],
)
@pytest.mark.parametrize(
    ("volume", "reason", "field"),
    [
        ("ca-bundle", Reason.CA_BUNDLE_NOT_FOUND, "spec.caBundle.configMapRef"),
        ("system-prompt", Reason.SYSTEM_PROMPT_NOT_FOUND, "spec.request.systemFrom"),
    ],
)
def test_a_missing_config_map_is_reported_with_the_field(
    volume: str, reason: Reason, field: str, said: str, fix: str
) -> None:
    failed = event("FailedMount", f'MountVolume.SetUp failed for volume "{volume}" : {said}')
    wait = wait_of(pod(waiting("ContainerCreating"), age=10), [failed])
    assert (wait.reason, wait.is_warning) == (reason, True)
    assert wait.message.startswith(f"{field} of the InferenceConfig: ")
    assert fix in wait.message


def test_any_other_failed_mount_is_reported_with_the_kubelets_message() -> None:
    wait = wait_of(pod(waiting("ContainerCreating")), [event("FailedMount", "no such device")])
    assert (wait.reason, wait.is_warning) == (Reason.VOLUME_NOT_MOUNTED, True)
    assert "no such device" in wait.message


@pytest.mark.parametrize(
    "message",
    [
        "container has runAsNonRoot and image will run as root",
        "container has runAsNonRoot and image has non-numeric user (app)",
    ],
)
def test_an_image_without_a_non_root_user_is_reported_with_the_fix(message: str) -> None:
    wait = wait_of(pod(waiting("CreateContainerConfigError", message)))
    assert (wait.reason, wait.is_warning) == (Reason.ROOT_NOT_ALLOWED, True)
    assert "set spec.runAsUser in the InferenceConfig" in wait.message


def test_any_other_container_problem_is_reported_with_the_kubelets_message() -> None:
    wait = wait_of(pod(waiting("CreateContainerError", "context\ndeadline exceeded")))
    assert (wait.reason, wait.message) == (
        Reason.CONTAINER_NOT_STARTED,
        "CreateContainerError: context deadline exceeded",
    )


def templated(**container: Any) -> Json:
    """A Job whose template has that container."""
    program = {"name": "inference", "image": "registry/own:1", **container}
    return job(spec={"template": {"spec": {"containers": [program]}}})


ATTEMPT = {"env": [{"name": "INFERRUN_ATTEMPT", "value": "1"}, {"name": "OTHER", "value": "a"}]}


@pytest.mark.parametrize(
    ("container", "words"),
    [
        (
            {"image": "mirror.invalid/own:1", **ATTEMPT},
            "(image 'mirror.invalid/own:1' instead of 'registry/own:1')",
        ),
        (
            {"command": ["/vault/env", "python"], **ATTEMPT},
            "(another command ['/vault/env', 'python'])",
        ),
        (
            {"command": ["python"], "args": ["--token=x"], **ATTEMPT},
            "(another command ['python'] and another args)",
        ),
        (
            {"env": [{"name": "INFERRUN_ATTEMPT", "value": "2"}]},
            "(another value of INFERRUN_ATTEMPT)",
        ),
        (
            {"env": [*ATTEMPT["env"], {"name": "INFERRUN_X", "value": "s3cret"}]},
            "(another value of INFERRUN_X)",
        ),
        ({"livenessProbe": {"periodSeconds": 1}, **ATTEMPT}, "(another livenessProbe)"),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/data/input"}], **ATTEMPT},
            "(other volumes)",
        ),
    ],
)
def test_a_pod_that_does_not_execute_what_its_job_says_is_reported_with_the_difference_and_the_fix(
    container: Json, words: str
) -> None:
    other = pod({"running": {"startedAt": STARTED}}, phase="Running", name="inf-iris-xyz")
    other["spec"]["containers"] = [
        {"name": "proxy"},
        {"name": "inference", "image": "registry/own:1", **container},
    ]
    wait = wait_of(None, [event("FailedCreate", "old")], by=templated(**ATTEMPT), changed=other)
    assert (wait.reason, wait.is_warning) == (Reason.POD_CHANGED, True)
    assert wait.message.startswith(
        f"Pod inf-iris-xyz does not execute what its Job says {words}, so nothing"
    )
    assert "let the webhook change Jobs as well" in wait.message
    assert wait.message.endswith("kubectl -n models delete pod inf-iris-xyz")
    assert "secret" not in wait.message
    assert "token" not in wait.message


def test_a_pod_that_executes_something_else_explains_no_wait_of_another_pod() -> None:
    other = pod(phase="Running", name="inf-iris-xyz")
    assert wait_of(pod(waiting("ContainerCreating")), changed=other).reason is Reason.POD_SCHEDULED
    assert wait_of(None, by=job(spec={"suspend": True}), changed=other).reason is Reason.QUEUED


def with_init(*statuses: Json) -> Json:
    of = pod(waiting("PodInitializing"))
    done = {"name": "warm-up", "state": terminated(0)}
    sidecar = {
        "name": "proxy",
        "state": {"running": {"startedAt": STARTED}},
        "started": True,
        "ready": True,
    }
    of["status"]["initContainerStatuses"] = [sidecar, done, *statuses]
    return of


@pytest.mark.parametrize(
    "reason", ["ImagePullBackOff", "CrashLoopBackOff", "CreateContainerConfigError"]
)
def test_an_injected_init_container_that_keeps_the_pod_from_starting_is_named(reason: str) -> None:
    wait = wait_of(
        with_init({"name": "istio-init", "state": waiting(reason, "the kubelet's words")})
    )
    assert (wait.reason, wait.is_warning) == (Reason.CONTAINER_NOT_STARTED, True)
    assert (
        f"init container istio-init, which is not ours ({reason}: the kubelet's words)"
        in wait.message
    )
    assert wait.message.endswith("kubectl -n models logs inf-iris-abc -c istio-init")


def test_an_injected_init_container_that_takes_its_time_is_named() -> None:
    wait = wait_of(
        with_init(
            {"name": "istio-init", "state": {"running": {"startedAt": STARTED}}, "started": True}
        )
    )
    assert (wait.reason, wait.is_warning) == (Reason.POD_SCHEDULED, False)
    assert "waits for init container istio-init, which is not ours" in wait.message
    for done in ((), ({"name": "istio-init", "state": waiting("PodInitializing")},)):
        assert "its node is preparing the container" in wait_of(with_init(*done)).message


def test_an_image_that_something_else_has_set_is_reported_with_the_one_that_was_asked_for() -> None:
    rewritten = job()
    rewritten["metadata"]["annotations"][wellknown.ANNOTATION_IMAGE] = "asked:1"
    wait = wait_of(pod(waiting("ErrImagePull", "no such host")), by=rewritten)
    assert wait.reason is Reason.IMAGE_PULL_FAILED
    assert "image 'registry/own:1' cannot be pulled" in wait.message
    assert (
        "the run asked for 'asked:1': fix the webhook or policy that has changed it" in wait.message
    )


@pytest.mark.parametrize(
    "state", [None, waiting(""), waiting("ContainerCreating"), waiting("PodInitializing")]
)
def test_a_pod_without_problems_is_being_prepared(state: Json | None) -> None:
    wait = wait_of(pod(state))
    assert (wait.reason, wait.is_warning) == (Reason.POD_SCHEDULED, False)


def warming_up(state: Json) -> Json:
    """A Pod whose init container is in that state."""
    of = pod(waiting("PodInitializing"))
    of["status"]["initContainerStatuses"] = [{"name": "warm-up", "state": state}]
    return of


def test_a_pod_that_waits_for_its_model_says_what_was_seen_last() -> None:
    running = warming_up({"running": {"startedAt": STARTED}})
    wait = wait_of(running, seen="http://m/ready: status 503")
    assert (wait.reason, wait.is_warning) == (Reason.MODEL_NOT_READY, False)
    assert (
        wait.message
        == "Pod inf-iris-abc waits until the model answers; last seen: http://m/ready: status 503"
    )
    assert wait_of(running).message == "Pod inf-iris-abc waits until the model answers"


def test_an_init_container_whose_image_is_missing_is_reported_with_a_fix() -> None:
    wait = wait_of(warming_up({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}))
    assert (wait.reason, wait.is_warning) == (Reason.IMAGE_PULL_FAILED, True)
    assert "kserve.warmUpSeconds: 0" in wait.message


def test_a_deleted_contract_is_told_from_other_volumes() -> None:
    missing = 'MountVolume.SetUp failed for volume "contract" : configmap "inf-iris-x" not found'
    wait = wait_of(pod(waiting("ContainerCreating")), [event("FailedMount", missing)])
    assert (wait.reason, wait.lacks_contract) == (Reason.VOLUME_NOT_MOUNTED, True)
    assert "inf-iris-x" in wait.message
    other = 'MountVolume.SetUp failed for volume "injected" : configmap "theirs" not found'
    assert not wait_of(
        pod(waiting("ContainerCreating")), [event("FailedMount", other)]
    ).lacks_contract
