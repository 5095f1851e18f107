"""The Kubernetes objects of a run: its ConfigMap and its Jobs. Pure. Fields that are not obvious carry their reason."""

import json

from activities.rules.model_limits import model_limits
from activities.rules.snapshot import CompiledRun, Snapshot
from inferrun import wellknown
from inferrun.exitcodes import ExitCode
from inferrun.kube.objects import Object
from inferrun.names import job_name, verify_job_name
from inferrun.run_ref import RunRef

CONTAINER = "inference"
WARM_UP_CONTAINER = "warm-up"
WARM_UP_COMMAND = ("python", "-m", "runner.warm_up")
GROUP_ID = 65532
TERMINATION_GRACE = 10
"""Seconds between SIGTERM and SIGKILL for the Pod of a run that was deleted or cancelled."""

SELECTOR = f"{wellknown.LABEL_MANAGED_BY}={wellknown.MANAGED_BY}"
"""The label selector of everything that is created for runs, by installations of any name."""

MAX_MARGIN = 86_400
"""Maximum number of seconds by which a Pod that was not started in time may outlive its run's deadline."""

CONTRACT_PATH = "/tmp/contract.json"  # noqa: S108 -- the path is the contract with every runner image
ENDPOINTS_PATH = "/etc/inferrun/endpoints"
DATA_PATH = "/data"
MODEL_CA_VOLUME = "model-ca"
MODEL_CA_KEYS = ("ca.crt", "tls.crt")
"""Of a model's own certificate, which is its own authority: KServe before 0.18 wrote no ca.crt. Keys that are missing are not
mounted, the private one never."""

CA_BUNDLE_VOLUME = "ca-bundle"
CA_BUNDLE_PATH = "/etc/inferrun/ca-bundle"
CA_BUNDLE_FILE = "ca.crt"
MODEL_SECRET_VOLUME = "endpoint-model"
WARM_UP_VOLUMES = ("tmp", "contract", MODEL_SECRET_VOLUME, MODEL_CA_VOLUME, CA_BUNDLE_VOLUME)

TOKEN_SECONDS = 3600
"""Lifetime of a service account's token. The kubelet replaces it after 80 % of that time."""

NOT_STARTED = 0
"""The `parallelism` with which a Job is created. It gets no Pod: the request may reach the API server late, when the run has
ended. It is started by its UID, once the status of the run names it (docs/decisions/0017): then it is that of its completions."""

REPORTED_FAILURES = sorted(int(code) for code in ExitCode if code not in (ExitCode.DONE, ExitCode.STOPPED))
"""Exit codes of a runner that has reported why it failed. One that was stopped or killed has not failed by itself."""

MAX_FAILURES = 2**31 - 1
"""The `backoffLimit` of a Job whose failures are counted per shard."""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

NO_QUEUE = "inferrun-not-started"
"""The queue of a Job that has not been started. There is none of that name, so Kueue holds the Job and never admits it; it gets
its own queue when it is started. Kueue would admit a Job without Pods at once, and could start its Pod before it counts again."""

VERIFY_COMMAND = ("python", "-m", "runner.verify")
"""A command instead of an argument: an image of an earlier version would ignore an argument and execute the run."""

VERIFY_SECONDS = 300
"""Time limit of a verification, including the wait for its Pod: a volume may take minutes to leave a lost node."""

VERIFY_RETRIES = 3

VERIFY_TTL_SECONDS = 600
"""The result is read within seconds; if not, the verification is repeated."""

ANNOTATION_SECONDS_LEFT = f"{wellknown.DOMAIN}/seconds-left"
"""On a Job: the seconds of the run's clock that this launch was given."""


def config_map(run: RunRef, compiled: CompiledRun, *, installation: str) -> Object:
    """The immutable ConfigMap that all Jobs of a run share."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": compiled.config_map,
            "namespace": run.namespace,
            "labels": labels_of(run, installation=installation),
            "annotations": {wellknown.ANNOTATION_RUN: run.name},
            "ownerReferences": [owner_reference(run)],
        },
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
) -> Object:
    """The Job of one launch, not started yet; `seconds_left` is what remains of the run's clock, None without a limit, and
    `waits` how many launches before this one ended while their Pod waited.
    """
    snapshot = compiled.snapshot
    labels = {
        **snapshot.labels,
        **labels_of(run, installation=installation),
        wellknown.LABEL_LAUNCH: str(launch),
        wellknown.LABEL_ATTEMPT: str(attempt),
    }
    held = {QUEUE_LABEL: NO_QUEUE} if QUEUE_LABEL in labels else {}
    own = {wellknown.ANNOTATION_RUN: run.name, **_observer_annotations(snapshot, run)}
    annotations = {**snapshot.annotations, **own}
    if seconds_left is not None:
        annotations[ANNOTATION_SECONDS_LEFT] = str(seconds_left)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(compiled.base_name, launch),
            "namespace": run.namespace,
            "labels": {**labels, **held},
            "annotations": annotations,
            "ownerReferences": [owner_reference(run)],
        },
        "spec": {
            "completions": snapshot.shards,
            "parallelism": NOT_STARTED,
            "backoffLimit": 0,  # the workflow counts attempts
            "podReplacementPolicy": "Failed",  # never two Pods of a run, or of a shard, at a time
            "podFailurePolicy": {"rules": [_ignored_disruption()]},
            **(_of_shards(snapshot) if snapshot.shards > 1 else {}),
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": _pod_spec(compiled, launch=launch, attempt=attempt, seconds_left=seconds_left, waits=waits),
            },
        },
    }


def held(body: Object, *, created: Object) -> Object | None:
    """How a Job that was created with this body must be created again, because a webhook has put it into a queue, such as the
    default one of its namespace; None if none has, or if it has been started.
    """
    queue = (created["metadata"].get("labels") or {}).get(QUEUE_LABEL)
    is_started = (created.get("spec") or {}).get("parallelism") != NOT_STARTED
    if is_started or queue in (None, NO_QUEUE, body["metadata"]["labels"].get(QUEUE_LABEL)):
        return None
    metadata, spec = body["metadata"], body["spec"]
    inside = spec["template"]["metadata"]
    template = {**spec["template"], "metadata": {**inside, "labels": {**inside["labels"], QUEUE_LABEL: queue}}}
    labels = {**metadata["labels"], QUEUE_LABEL: NO_QUEUE}
    return {**body, "metadata": {**metadata, "labels": labels}, "spec": {**spec, "template": template}}


def _ignored_disruption() -> Object:
    """The rule that an evicted or preempted Pod does not count as a failure."""
    return {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def _of_shards(snapshot: Snapshot) -> Object:
    """What makes a Job create one Pod per shard. The first Pod that succeeds has found the run committed, and ends it.

    A Pod that was killed is replaced, and one that reports a failure is not: the others go on with its chunks. The workflow counts
    the launch as failed once no shard is left.
    """
    reported = {"containerName": CONTAINER, "operator": "In", "values": REPORTED_FAILURES}
    return {
        "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededCount": 1}]},
        "backoffLimit": MAX_FAILURES,
        "backoffLimitPerIndex": snapshot.backoff_limit,
        "podFailurePolicy": {"rules": [_ignored_disruption(), {"action": "FailIndex", "onExitCodes": reported}]},
    }


def verify_job(
    run: RunRef, compiled: CompiledRun, *, installation: str, launch: int, attempt: int, is_final: bool
) -> Object:
    """The Job that checks whether the run's output is committed, with the output's mounts and the identity of a launch.
    Not started yet; if it never is, its time limit ends it.

    It is no launch: no queue holds it, it gets no accelerators, and the Job controller repeats it within its time.
    """
    labels = {
        **labels_of(run, installation=installation),
        wellknown.LABEL_LAUNCH: str(launch),
        wellknown.LABEL_ATTEMPT: str(attempt),
    }
    annotations = {wellknown.ANNOTATION_RUN: run.name, wellknown.ANNOTATION_RUNNER: wellknown.RUNNER_VERIFY}
    of_output = CompiledRun(compiled.base_name, compiled.contract_json, _for_output(compiled.snapshot))
    spec = _pod_spec(of_output, launch=launch, attempt=attempt, seconds_left=None)
    spec["containers"][0]["command"] = [*VERIFY_COMMAND, *(["--final"] if is_final else [])]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": verify_job_name(compiled.base_name, launch, is_final=is_final),
            "namespace": run.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference(run)],
        },
        "spec": {
            "completions": 1,
            "parallelism": NOT_STARTED,
            "backoffLimit": VERIFY_RETRIES,
            "activeDeadlineSeconds": VERIFY_SECONDS,
            "ttlSecondsAfterFinished": VERIFY_TTL_SECONDS,
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec},
        },
    }


def _for_output(snapshot: Snapshot) -> Snapshot:
    """The snapshot with what only the input and the model need left out, because it may be missing or scarce."""
    resources = {
        part: kept
        for part, amounts in snapshot.resources.items()
        if (kept := {key: value for key, value in amounts.items() if key in ("cpu", "memory")})
    }
    return snapshot.model_copy(
        update={
            "endpoints": tuple(item for item in snapshot.endpoints if item.end == "output"),
            "claims": tuple(item for item in snapshot.claims if item.end == "output"),
            "resources": resources,
            "model_token_audience": "",
            "warm_up_limit": 0,
            "shards": 1,
        }
    )


def _observer_annotations(snapshot: Snapshot, run: RunRef) -> dict[str, str]:
    """What the observer needs to report progress and reasons for waiting. Users can edit it: it decides nothing else."""
    kind = wellknown.RUNNER_BUILTIN if snapshot.is_our_runner else wellknown.RUNNER_CUSTOM
    named = {item.secret: item.named_namespace for item in snapshot.endpoints}
    if snapshot.pull_secret:
        named[snapshot.pull_secret] = snapshot.pull_secret_namespace
    elsewhere = {secret: namespace for secret, namespace in named.items() if namespace not in ("", run.namespace)}
    annotations = {wellknown.ANNOTATION_RUNNER: kind}
    return annotations | ({wellknown.ANNOTATION_SECRET_NAMESPACES: json.dumps(elsewhere)} if elsewhere else {})


def owner_reference(run: RunRef) -> Object:
    """Makes the garbage collector delete what belongs to a run, even if none of our processes is running."""
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


def _pod_spec(compiled: CompiledRun, *, launch: int, attempt: int, seconds_left: int | None, waits: int = 0) -> Object:
    snapshot = compiled.snapshot
    spec: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": TERMINATION_GRACE,
        "enableServiceLinks": False,
        "automountServiceAccountToken": bool(snapshot.service_account),
        "securityContext": _pod_security(snapshot),
        "volumes": _volumes(compiled),
        "containers": [_container(compiled, launch=launch, attempt=attempt, seconds_left=seconds_left)],
    }
    if snapshot.warm_up_limit:
        spec["initContainers"] = [_warm_up(compiled)]
    if snapshot.service_account:
        spec["serviceAccountName"] = snapshot.service_account
    if snapshot.pull_secret:
        spec["imagePullSecrets"] = [{"name": snapshot.pull_secret}]
    if seconds_left is not None:
        margin = deadline_margin(snapshot, waits=waits) + snapshot.warm_up_limit
        spec["activeDeadlineSeconds"] = seconds_left + margin
    return spec


def deadline_margin(snapshot: Snapshot, *, waits: int) -> int:
    """Seconds that a Pod may live longer than its launch may run, because the limit counts its wait as well.

    Each launch that ended waiting doubles it, so that a wait of days costs a launch per day and not one every ten minutes.
    """
    margin = snapshot.deadline_margin_seconds
    doubled: int = margin * 2 ** min(waits, 30)
    return min(doubled, max(margin, MAX_MARGIN))


def _pod_security(snapshot: Snapshot) -> Object:
    security: Object = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if snapshot.run_as_user is not None:
        security["runAsUser"] = snapshot.run_as_user
    if snapshot.has_fixed_group:
        security["runAsGroup"] = GROUP_ID
    if snapshot.claims and snapshot.has_fixed_group:
        security |= {"fsGroup": GROUP_ID, "fsGroupChangePolicy": "OnRootMismatch"}
    return security


def _warm_up(compiled: CompiledRun) -> Object:
    """The init container that waits until the model answers; always our image, for custom images too.

    It requests no more than the container after it, so that it does not change what the Pod requests.
    """
    snapshot = compiled.snapshot
    plain = {"HOME": "/tmp", "INFERRUN_WARM_UP_SECONDS": str(snapshot.warm_up_limit)}  # noqa: S108
    plain |= _addresses(snapshot) | _ca_bundle_variable(snapshot)
    mounts = _mounts(compiled)
    resources = {
        part: kept
        for part, amounts in snapshot.resources.items()
        if (kept := {key: value for key, value in amounts.items() if key in ("cpu", "memory", "ephemeral-storage")})
    }
    container: Object = {
        "name": WARM_UP_CONTAINER,
        "image": snapshot.warm_up_image,
        "command": list(WARM_UP_COMMAND),
        "env": [{"name": name, "value": value} for name, value in plain.items()],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [one for one in mounts if one["name"] in WARM_UP_VOLUMES],
    }
    return container | ({"resources": resources} if resources else {})


def _container(compiled: CompiledRun, *, launch: int, attempt: int, seconds_left: int | None) -> Object:
    snapshot = compiled.snapshot
    container: Object = {
        "name": CONTAINER,
        "image": snapshot.image,
        "env": _environment(compiled, launch=launch, attempt=attempt, seconds_left=seconds_left),
        "terminationMessagePolicy": "FallbackToLogsOnError" if snapshot.is_our_runner else "File",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": _mounts(compiled),
    }
    if snapshot.is_root_read_only:
        container["securityContext"]["readOnlyRootFilesystem"] = True
    if snapshot.image_pull_policy:
        container["imagePullPolicy"] = snapshot.image_pull_policy
    if snapshot.resources:
        container["resources"] = snapshot.resources
    return container


def _environment(compiled: CompiledRun, *, launch: int, attempt: int, seconds_left: int | None) -> list[Object]:
    snapshot = compiled.snapshot
    plain = {"INFERRUN_LAUNCH": str(launch), "INFERRUN_ATTEMPT": str(attempt)}
    if snapshot.shards > 1:
        plain["INFERRUN_SHARDS"] = str(snapshot.shards)
    if seconds_left is not None:
        plain["INFERRUN_SECONDS_LEFT"] = str(seconds_left)
    plain |= _ca_bundle_variable(snapshot)
    if snapshot.is_our_runner:
        plain |= {"HOME": "/tmp", "INFERRUN_POST_LIMIT": str(snapshot.krateo_post_limit_bytes)}  # noqa: S108
        plain |= _addresses(snapshot)
        plain |= snapshot.limits | model_limits(compiled)
    uid: Object = {"name": "pod_uid", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
    return [uid, *({"name": name, "value": value} for name, value in plain.items())]


def _addresses(snapshot: Snapshot) -> dict[str, str]:
    """The installation's lists of addresses, without empty ones."""
    lists = {
        "INFERRUN_ALLOWED_ADDRESSES": snapshot.allowed_addresses,
        "INFERRUN_REFUSED_ADDRESSES": snapshot.refused_addresses,
    }
    return {name: ",".join(addresses) for name, addresses in lists.items() if addresses}


def _ca_bundle_variable(snapshot: Snapshot) -> dict[str, str]:
    return {"INFERRUN_CA_BUNDLE": f"{CA_BUNDLE_PATH}/{CA_BUNDLE_FILE}"} if snapshot.ca_bundle else {}


def _volumes(compiled: CompiledRun) -> list[Object]:
    snapshot = compiled.snapshot
    contract = {"name": compiled.config_map, "items": [{"key": "contract.json", "path": "contract.json"}]}
    volumes: list[Object] = [
        {"name": "tmp", "emptyDir": {"sizeLimit": snapshot.tmp_size} if snapshot.tmp_size else {}},
        {"name": "contract", "configMap": contract},
    ]
    for endpoint in snapshot.endpoints:
        if endpoint.end == "model" and snapshot.model_token_audience:
            continue  # _model_token has it
        # A custom image looks up its Secret itself, so a missing Secret must not keep the Pod from starting.
        secret = {"secretName": endpoint.secret, "optional": not snapshot.is_our_runner, "defaultMode": 0o444}
        volumes.append({"name": f"endpoint-{endpoint.end}", "secret": secret})
    if snapshot.model_token_audience:
        volumes.append({"name": MODEL_SECRET_VOLUME, "projected": _model_token(snapshot)})
    for end, sources in _header_sources(snapshot).items():
        volumes.append({"name": f"headers-{end}", "projected": {"sources": sources, "defaultMode": 0o444}})
    if secret_name := _ca_secret(compiled):
        items = [{"key": key, "path": key} for key in MODEL_CA_KEYS]
        secret = {"secretName": secret_name, "optional": True, "items": items}
        volumes.append({"name": MODEL_CA_VOLUME, "secret": {**secret, "defaultMode": 0o444}})
    if (bundle := snapshot.ca_bundle) is not None:
        items = [{"key": bundle.key, "path": CA_BUNDLE_FILE}]
        volumes.append({"name": CA_BUNDLE_VOLUME, "configMap": {"name": bundle.config_map, "items": items}})
    for claim in dict.fromkeys(claim.name for claim in snapshot.claims):
        volumes.append({"name": _claim_volume(snapshot, claim), "persistentVolumeClaim": {"claimName": claim}})
    return volumes


def _model_token(snapshot: Snapshot) -> Object:
    """The token of the service account for the model server, beside the keys of the Secret if there is one."""
    secrets = [one.secret for one in snapshot.endpoints if one.end == "model"]
    sources: list[Object] = [{"secret": {"name": one, "optional": not snapshot.is_our_runner}} for one in secrets]
    token = {"audience": snapshot.model_token_audience, "expirationSeconds": TOKEN_SECONDS, "path": "token"}
    return {"sources": [*sources, {"serviceAccountToken": token}], "defaultMode": 0o444}


def _mounts(compiled: CompiledRun) -> list[Object]:
    snapshot = compiled.snapshot
    mounts: list[Object] = [
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
        {"name": "contract", "mountPath": CONTRACT_PATH, "subPath": "contract.json", "readOnly": True},
    ]
    for endpoint in snapshot.endpoints:
        path = f"{ENDPOINTS_PATH}/{endpoint.end}"
        mounts.append({"name": f"endpoint-{endpoint.end}", "mountPath": path, "readOnly": True})
    if snapshot.model_token_audience and all(one.end != "model" for one in snapshot.endpoints):
        mounts.append({"name": MODEL_SECRET_VOLUME, "mountPath": f"{ENDPOINTS_PATH}/model", "readOnly": True})
    for end in _header_sources(snapshot):
        mounts.append({"name": f"headers-{end}", "mountPath": f"{ENDPOINTS_PATH}/{end}-headers", "readOnly": True})
    if _ca_secret(compiled):
        mounts.append({"name": MODEL_CA_VOLUME, "mountPath": f"{ENDPOINTS_PATH}/{MODEL_CA_VOLUME}", "readOnly": True})
    if snapshot.ca_bundle is not None:
        mounts.append({"name": CA_BUNDLE_VOLUME, "mountPath": CA_BUNDLE_PATH, "readOnly": True})
    for claim in snapshot.claims:
        volume = _claim_volume(snapshot, claim.name)
        mounts.append({"name": volume, "mountPath": f"{DATA_PATH}/{claim.end}", "readOnly": claim.end == "input"})
    return mounts


def _ca_secret(compiled: CompiledRun) -> str:
    """The Secret with the authority of a model's own certificate; a Pod can mount only Secrets of its namespace."""
    target, service = compiled.snapshot.service, compiled.service
    if service is None or target is None or not target.is_at_home:
        return ""
    return service.ca_secret


def _header_sources(snapshot: Snapshot) -> dict[str, list[Object]]:
    """The keys of Secrets with header values by end; each becomes a file that is named after its place in the list."""
    sources: dict[str, list[Object]] = {}
    for header in snapshot.header_secrets:
        item = {"key": header.key, "path": str(header.index)}
        secret = {"name": header.secret, "items": [item], "optional": not snapshot.is_our_runner}
        sources.setdefault(header.end, []).append({"secret": secret})
    return sources


def _claim_volume(snapshot: Snapshot, name: str) -> str:
    """One volume per claim: input and output may use the same one."""
    first = next(claim.end for claim in snapshot.claims if claim.name == name)
    return f"data-{first}"
