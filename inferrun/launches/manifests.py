"""The Kubernetes objects of a run: its ConfigMap and its Jobs. Pure. Fields that are not obvious
carry their reason."""

import json
from collections.abc import Mapping

from inferrun import wellknown
from inferrun.exitcodes import ExitCode
from inferrun.kube.objects import Object
from inferrun.launches import pod_identity, pod_limits, pod_mounts, pod_placement
from inferrun.launches.pod_mounts import Volume
from inferrun.launches.snapshot import CompiledRun
from inferrun.launches.verification_timing import VERIFICATION
from inferrun.names import job_name, verify_job_name
from inferrun.run_ref import RunRef
from inferrun.stop_timing import STOP

CONTAINER = "inference"
WARM_UP_CONTAINER = "warm-up"
WARM_UP_COMMAND = ("python", "-m", "inferrun_runner.warm_up")
SELECTOR = f"{wellknown.LABEL_MANAGED_BY}={wellknown.MANAGED_BY}"
"""The label selector of everything that is created for runs, by installations of any name."""

CONTRACT_PATH = "/tmp/contract.json"  # noqa: S108 -- the path is the contract with every runner image
WARM_UP_VOLUMES = ("tmp", "contract", *pod_mounts.MODEL_VOLUMES)

NOT_STARTED = 0
"""The `parallelism` with which a Job is created. It gets no Pod: the request may reach the API
server late, when the run has ended. It is started by its UID, once the status of the run names it
(docs/decisions/0017): then it is that of its completions."""

_SIGNALS = 128
"""Exit codes from here on are those of signals."""

REPORTED_FAILURES = sorted(int(code) for code in ExitCode if 0 < code < _SIGNALS)
"""Exit codes of a runner that has reported why it failed. One that was stopped or killed has not
failed by itself."""

MAX_FAILURES = 2**31 - 1
"""The `backoffLimit` of a Job whose failures are counted per shard."""

HELD = {"kueue.x-k8s.io/prebuilt-workload-name": "inferrun-not-started"}
"""A label of a Job that has not been started. Kueue waits for the Workload of that name, which does
not exist, so it does not admit the Job, whatever its queue. Otherwise it would admit a Job without
Pods at once."""

VERIFY_COMMAND = ("python", "-m", "inferrun_runner.verify")
"""A command instead of an argument: an image of an earlier version would ignore an argument and
execute the run."""

VERIFY_RETRIES = 3

VERIFY_TTL_SECONDS = 600
"""The result is read within seconds; if not, the verification is repeated."""

ANNOTATION_SECONDS_LEFT = f"{wellknown.DOMAIN}/seconds-left"
"""On a Job: the seconds of the run's clock that this launch was given."""


def config_map(run: RunRef, compiled: CompiledRun, *, installation: str) -> Object:
    """The immutable ConfigMap that all Jobs of a run share."""
    metadata = _metadata(compiled.config_map, run, installation=installation)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "immutable": True,
        "data": compiled.texts,
    }


def job(
    run: RunRef,
    compiled: CompiledRun,
    *,
    installation: str,
    launch: int,
    attempt: int,
    seconds_left: int | None,
    waits: int = 0,
    variables: Mapping[str, str] | None = None,
) -> Object:
    """The Job of one launch, not started yet; `seconds_left` is what remains of the run's clock,
    None without a limit, `waits` how many launches before this one ended while their Pod waited,
    and `variables` more of the container's environment.
    """
    snapshot = compiled.snapshot
    # What the observer needs to report progress and reasons for waiting. Users can edit it: it
    # decides nothing else.
    kind = wellknown.RUNNER_BUILTIN if snapshot.is_our_runner else wellknown.RUNNER_CUSTOM
    annotations = {
        **snapshot.annotations,
        wellknown.ANNOTATION_RUNNER: kind,
        wellknown.ANNOTATION_IMAGE: snapshot.image,
    }
    named = {item.secret: item.named_namespace for item in snapshot.endpoints}
    if snapshot.pull_secret:
        named[snapshot.pull_secret] = snapshot.pull_secret_namespace
    if elsewhere := {
        secret: where for secret, where in named.items() if where not in ("", run.namespace)
    }:
        annotations[wellknown.ANNOTATION_SECRET_NAMESPACES] = json.dumps(elsewhere)
    if seconds_left is not None:
        annotations[ANNOTATION_SECONDS_LEFT] = str(seconds_left)
    metadata = _metadata(
        job_name(compiled.base_name, launch),
        run,
        installation=installation,
        annotations=annotations,
    )
    labels = {**snapshot.labels, **metadata["labels"], **_numbers(launch=launch, attempt=attempt)}
    # An evicted or preempted Pod does not count as a failure.
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    failure_rules: list[Object] = [{"action": "Ignore", "onPodConditions": disrupted}]
    of_shards: Object = {}
    if snapshot.shards > 1:
        # One Pod per shard. The first one that succeeds has found the run committed, and ends the
        # Job. A Pod that was killed is replaced, and one that reports a failure is not: the others
        # go on with its chunks. The workflow counts the launch as failed once no shard is left.
        reported = {"containerName": CONTAINER, "operator": "In", "values": REPORTED_FAILURES}
        failure_rules.append({"action": "FailIndex", "onExitCodes": reported})
        of_shards = {
            "completionMode": "Indexed",
            "successPolicy": {"rules": [{"succeededCount": 1}]},
            "backoffLimit": MAX_FAILURES,
            "backoffLimitPerIndex": snapshot.backoff_limit,
        }
    pod = _pod_spec(
        run, compiled, launch=launch, attempt=attempt, seconds_left=seconds_left, waits=waits
    )
    pod["containers"][0]["env"] += _variables(variables or {})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "labels": {**labels, **HELD}},
        "spec": {
            "completions": snapshot.shards,
            "parallelism": NOT_STARTED,
            "backoffLimit": 0,  # the workflow counts attempts
            "podReplacementPolicy": "Failed",  # never two Pods of a run, or of a shard, at a time
            "podFailurePolicy": {"rules": failure_rules},
            **of_shards,
            "template": {
                "metadata": {
                    "labels": labels | pod_mounts.pod_labels(snapshot),
                    "annotations": metadata["annotations"],
                },
                "spec": pod,
            },
        },
    }


def verify_job(
    run: RunRef,
    compiled: CompiledRun,
    *,
    installation: str,
    launch: int,
    attempt: int,
    is_final: bool,
) -> Object:
    """The Job that checks whether the run's output is committed, with the output's mounts and the
    identity of a launch, on nodes where a launch may run: others may not reach the output. Not
    started yet; if it never is, its time limit ends it.

    It is no launch: no queue holds it, it gets no accelerators, and the Job controller repeats it
    within its time.
    """
    name = verify_job_name(compiled.base_name, launch, is_final=is_final)
    annotations = {wellknown.ANNOTATION_RUNNER: wellknown.RUNNER_VERIFY}
    metadata = _metadata(name, run, installation=installation, annotations=annotations)
    metadata["labels"] |= _numbers(launch=launch, attempt=attempt)
    labels = metadata["labels"] | pod_mounts.pod_labels(compiled.snapshot)
    template = {"labels": labels, "annotations": metadata["annotations"]}
    # What only the input and the model need is left out, because it may be missing or scarce.
    resources = pod_limits.resources_of(compiled.snapshot, "cpu", "memory")
    of_output = compiled.snapshot.for_output().model_copy(
        update={"resources": resources, "warm_up_limit": 0, "shards": 1}
    )
    verifying = CompiledRun(compiled.base_name, compiled.contract_json, of_output)
    spec = _pod_spec(run, verifying, launch=launch, attempt=attempt, seconds_left=None)
    spec["containers"][0]["command"] = [*VERIFY_COMMAND, *(["--final"] if is_final else [])]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "labels": {**metadata["labels"], **HELD}},
        "spec": {
            "completions": 1,
            "parallelism": NOT_STARTED,
            "backoffLimit": VERIFY_RETRIES,
            "activeDeadlineSeconds": VERIFICATION.job,
            "ttlSecondsAfterFinished": VERIFY_TTL_SECONDS,
            "template": {"metadata": template, "spec": spec},
        },
    }


def owner_reference(run: RunRef) -> Object:
    """Makes the garbage collector delete what belongs to a run, even if none of our processes is
    running."""
    return {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.RUN_KIND,
        "name": run.name,
        "uid": run.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def labels_of(run: RunRef, *, installation: str) -> dict[str, str]:
    """The labels of everything that is created for a run."""
    return {
        wellknown.LABEL_MANAGED_BY: wellknown.MANAGED_BY,
        wellknown.LABEL_INSTALLATION: installation,
        wellknown.LABEL_RUN_UID: run.uid,
    }


def _metadata(
    name: str, run: RunRef, *, installation: str, annotations: dict[str, str] | None = None
) -> Object:
    return {
        "name": name,
        "namespace": run.namespace,
        "labels": labels_of(run, installation=installation),
        "annotations": {**(annotations or {}), wellknown.ANNOTATION_RUN: run.name},
        "ownerReferences": [owner_reference(run)],
    }


def _numbers(*, launch: int, attempt: int) -> dict[str, str]:
    return {wellknown.LABEL_LAUNCH: str(launch), wellknown.LABEL_ATTEMPT: str(attempt)}


def _pod_spec(
    run: RunRef,
    compiled: CompiledRun,
    *,
    launch: int,
    attempt: int,
    seconds_left: int | None,
    waits: int = 0,
) -> Object:
    snapshot, volumes = compiled.snapshot, _volumes(compiled)
    mounts = [mount for _, places in volumes for mount in places]
    container: Object = {
        "name": CONTAINER,
        **pod_identity.container_fields(snapshot),
        "env": [
            {"name": "pod_uid", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            *_variables(
                _environment(compiled, launch=launch, attempt=attempt, seconds_left=seconds_left)
            ),
        ],
        "volumeMounts": mounts,
    }
    if snapshot.resources:
        container["resources"] = snapshot.resources
    spec: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": STOP.grace,
        "enableServiceLinks": False,
        "volumes": [volume for volume, _ in volumes],
        "containers": [container],
        **pod_identity.pod_fields(snapshot, has_claims=bool(snapshot.claims)),
        **pod_placement.pod_fields(snapshot, run=run),
    }
    if snapshot.warm_up_limit:
        # Waits until the model answers. It is our image for custom images too, and requests no more
        # than the container after it, so that it does not change what the Pod requests.
        own = {"HOME": "/tmp", "INFERRUN_WARM_UP_SECONDS": str(snapshot.warm_up_limit)}  # noqa: S108
        warm_up: Object = {
            "name": WARM_UP_CONTAINER,
            "image": snapshot.warm_up_image,
            "command": list(WARM_UP_COMMAND),
            "env": _variables(
                own | pod_limits.address_variables(snapshot) | pod_mounts.trust_variables(snapshot)
            ),
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": pod_identity.READ_ONLY_SECURITY,
            "volumeMounts": [one for one in mounts if one["name"] in WARM_UP_VOLUMES],
        }
        if resources := pod_limits.resources_of(snapshot, "cpu", "memory", "ephemeral-storage"):
            warm_up["resources"] = resources
        spec["initContainers"] = [warm_up]
    if seconds_left is not None:
        margin = pod_limits.deadline_margin(snapshot, waits=waits) + snapshot.warm_up_limit
        spec["activeDeadlineSeconds"] = seconds_left + margin
    return spec


def _variables(plain: Mapping[str, str]) -> list[Object]:
    return [{"name": name, "value": value} for name, value in plain.items()]


def _environment(
    compiled: CompiledRun, *, launch: int, attempt: int, seconds_left: int | None
) -> dict[str, str]:
    """What differs between launches, and for our runner its limits."""
    snapshot = compiled.snapshot
    plain = {"INFERRUN_LAUNCH": str(launch), "INFERRUN_ATTEMPT": str(attempt)}
    if (interval := compiled.interval) is not None:
        plain |= {"INFERRUN_INTERVAL_START": interval.start, "INFERRUN_INTERVAL_END": interval.end}
    if snapshot.shards > 1:
        plain["INFERRUN_SHARDS"] = str(snapshot.shards)
    if seconds_left is not None:
        plain["INFERRUN_SECONDS_LEFT"] = str(seconds_left)
    trust = pod_mounts.trust_variables(snapshot)
    if not snapshot.is_our_runner:
        return plain | trust
    own = {"HOME": "/tmp", "INFERRUN_POST_LIMIT": str(snapshot.krateo_post_limit_bytes)}  # noqa: S108
    limits = pod_limits.runner_variables(snapshot, service=compiled.service)
    return plain | own | pod_limits.address_variables(snapshot) | trust | limits


def _volumes(compiled: CompiledRun) -> list[Volume]:
    snapshot = compiled.snapshot
    tmp: Object = {"emptyDir": {"sizeLimit": snapshot.tmp_size} if snapshot.tmp_size else {}}
    contract = {
        "name": compiled.config_map,
        "items": [{"key": "contract.json", "path": "contract.json"}],
    }
    at_contract = {"mountPath": CONTRACT_PATH, "subPath": "contract.json", "readOnly": True}
    return [
        pod_mounts.mounted("tmp", tmp, {"mountPath": "/tmp"}),  # noqa: S108
        pod_mounts.mounted("contract", {"configMap": contract}, at_contract),
        *pod_mounts.volumes_of(
            snapshot, ca_secret=compiled.ca_secret, is_our_runner=snapshot.is_our_runner
        ),
    ]
