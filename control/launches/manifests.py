"""The Kubernetes objects of a run: its ConfigMap and its Jobs. Pure. Fields that are not obvious carry their reason."""

import json
from collections.abc import Mapping

from control.launches.snapshot import CompiledRun, Snapshot
from inferrun import wellknown
from inferrun.exitcodes import ExitCode
from inferrun.kube.objects import Object
from inferrun.names import job_name, verify_job_name
from inferrun.plugins.limits import MAX_CONCURRENCY, Limits
from inferrun.run_ref import RunRef
from inferrun.stop_timing import STOP
from workflows.timing import VERIFICATION

CONTAINER = "inference"
WARM_UP_CONTAINER = "warm-up"
WARM_UP_COMMAND = ("python", "-m", "runner.warm_up")
GROUP_ID = 65532
CONTAINER_SECURITY: Object = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
SELECTOR = f"{wellknown.LABEL_MANAGED_BY}={wellknown.MANAGED_BY}"
"""The label selector of everything that is created for runs, by installations of any name."""

MAX_MARGIN = 86_400
"""Maximum number of seconds by which a Pod that was not started in time may outlive its run's deadline."""

CONTRACT_PATH = "/tmp/contract.json"  # noqa: S108 -- the path is the contract with every runner image
ENDPOINTS_PATH = "/etc/inferrun/endpoints"
DATA_PATH = "/data"
MODEL_CA_VOLUME = "model-ca"
MODEL_CA_KEYS = ("ca.crt", "tls.crt")
"""The keys of a model's own certificate, which is its own authority: KServe before 0.18 wrote no
ca.crt. Keys that are missing are not mounted, the private one never."""

CA_BUNDLE_VOLUME = "ca-bundle"
CA_BUNDLE_PATH = "/etc/inferrun/ca-bundle"
CA_BUNDLE_FILE = "ca.crt"
SYSTEM_PROMPT_VOLUME = "system-prompt"
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

AZURE_IDENTITY_LABEL = "azure.workload.identity/use"
"""The label of Pods to which Azure's webhook adds the token of their service account for Azure."""

HELD = {"kueue.x-k8s.io/prebuilt-workload-name": "inferrun-not-started"}
"""A label of a Job that has not been started. Kueue waits for the Workload of that name, which does not exist, so it does not
admit the Job, whatever its queue. Otherwise it would admit a Job without Pods at once."""

VERIFY_COMMAND = ("python", "-m", "runner.verify")
"""A command instead of an argument: an image of an earlier version would ignore an argument and execute the run."""

VERIFY_RETRIES = 3

VERIFY_TTL_SECONDS = 600
"""The result is read within seconds; if not, the verification is repeated."""

BELOW_THE_LIMIT = 0.9
"""Share of the model server's time limit after which the runner gives a request up, so that it is the runner that decides."""

ANNOTATION_SECONDS_LEFT = f"{wellknown.DOMAIN}/seconds-left"
"""On a Job: the seconds of the run's clock that this launch was given."""


def config_map(run: RunRef, compiled: CompiledRun, *, installation: str) -> Object:
    """The immutable ConfigMap that all Jobs of a run share."""
    metadata = _metadata(compiled.config_map, run, installation=installation)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": True, "data": compiled.texts}


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
    """The Job of one launch, not started yet; `seconds_left` is what remains of the run's clock, None without a limit,
    `waits` how many launches before this one ended while their Pod waited, and `variables` more of the container's environment.
    """
    snapshot = compiled.snapshot
    # What the observer needs to report progress and reasons for waiting. Users can edit it: it decides nothing else.
    kind = wellknown.RUNNER_BUILTIN if snapshot.is_our_runner else wellknown.RUNNER_CUSTOM
    annotations = {
        **snapshot.annotations,
        wellknown.ANNOTATION_RUNNER: kind,
        wellknown.ANNOTATION_IMAGE: snapshot.image,
    }
    named = {item.secret: item.named_namespace for item in snapshot.endpoints}
    if snapshot.pull_secret:
        named[snapshot.pull_secret] = snapshot.pull_secret_namespace
    if elsewhere := {secret: where for secret, where in named.items() if where not in ("", run.namespace)}:
        annotations[wellknown.ANNOTATION_SECRET_NAMESPACES] = json.dumps(elsewhere)
    if seconds_left is not None:
        annotations[ANNOTATION_SECONDS_LEFT] = str(seconds_left)
    metadata = _metadata(job_name(compiled.base_name, launch), run, installation=installation, annotations=annotations)
    labels = {**snapshot.labels, **metadata["labels"], **_numbers(launch=launch, attempt=attempt)}
    # An evicted or preempted Pod does not count as a failure.
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    failure_rules: list[Object] = [{"action": "Ignore", "onPodConditions": disrupted}]
    of_shards: Object = {}
    if snapshot.shards > 1:
        # One Pod per shard. The first one that succeeds has found the run committed, and ends the Job. A Pod that was killed is
        # replaced, and one that reports a failure is not: the others go on with its chunks. The workflow counts the launch as
        # failed once no shard is left.
        reported = {"containerName": CONTAINER, "operator": "In", "values": REPORTED_FAILURES}
        failure_rules.append({"action": "FailIndex", "onExitCodes": reported})
        of_shards = {
            "completionMode": "Indexed",
            "successPolicy": {"rules": [{"succeededCount": 1}]},
            "backoffLimit": MAX_FAILURES,
            "backoffLimitPerIndex": snapshot.backoff_limit,
        }
    pod = _pod_spec(run, compiled, launch=launch, attempt=attempt, seconds_left=seconds_left, waits=waits)
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
                "metadata": {"labels": labels | _identity_labels(snapshot), "annotations": metadata["annotations"]},
                "spec": pod,
            },
        },
    }


def verify_job(
    run: RunRef, compiled: CompiledRun, *, installation: str, launch: int, attempt: int, is_final: bool
) -> Object:
    """The Job that checks whether the run's output is committed, with the output's mounts and the identity of a launch, on nodes
    where a launch may run: others may not reach the output. Not started yet; if it never is, its time limit ends it.

    It is no launch: no queue holds it, it gets no accelerators, and the Job controller repeats it within its time.
    """
    name = verify_job_name(compiled.base_name, launch, is_final=is_final)
    annotations = {wellknown.ANNOTATION_RUNNER: wellknown.RUNNER_VERIFY}
    metadata = _metadata(name, run, installation=installation, annotations=annotations)
    metadata["labels"] |= _numbers(launch=launch, attempt=attempt)
    labels = metadata["labels"] | _identity_labels(compiled.snapshot)
    template = {"labels": labels, "annotations": metadata["annotations"]}
    # What only the input and the model need is left out, because it may be missing or scarce.
    of_output = compiled.snapshot.model_copy(
        update={
            "endpoints": tuple(item for item in compiled.snapshot.endpoints if item.end == "output"),
            "claims": tuple(item for item in compiled.snapshot.claims if item.end == "output"),
            "resources": _resources(compiled.snapshot, "cpu", "memory"),
            "token_audiences": {
                end: audience for end, audience in compiled.snapshot.token_audiences.items() if end == "output"
            },
            "system_prompt": None,
            "header_secrets": tuple(one for one in compiled.snapshot.header_secrets if one.end == "output"),
            "warm_up_limit": 0,
            "shards": 1,
        }
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


def _metadata(name: str, run: RunRef, *, installation: str, annotations: dict[str, str] | None = None) -> Object:
    return {
        "name": name,
        "namespace": run.namespace,
        "labels": labels_of(run, installation=installation),
        "annotations": {**(annotations or {}), wellknown.ANNOTATION_RUN: run.name},
        "ownerReferences": [owner_reference(run)],
    }


def _numbers(*, launch: int, attempt: int) -> dict[str, str]:
    return {wellknown.LABEL_LAUNCH: str(launch), wellknown.LABEL_ATTEMPT: str(attempt)}


def _identity_labels(snapshot: Snapshot) -> dict[str, str]:
    return {AZURE_IDENTITY_LABEL: "true"} if snapshot.has_azure_identity else {}


def _resources(snapshot: Snapshot, *kinds: str) -> dict[str, dict[str, str]]:
    kept = {
        part: {key: value for key, value in amounts.items() if key in kinds}
        for part, amounts in snapshot.resources.items()
    }
    return {part: amounts for part, amounts in kept.items() if amounts}


def deadline_margin(snapshot: Snapshot, *, waits: int) -> int:
    """Seconds that a Pod may live longer than its launch may run, because the limit counts its wait as well.

    Each launch that ended waiting doubles it, so that a wait of days costs a launch per day and not one every ten minutes.
    """
    margin = snapshot.deadline_margin_seconds
    doubled: int = margin * 2 ** min(waits, 30)
    return min(doubled, max(margin, MAX_MARGIN))


def _pod_spec(
    run: RunRef, compiled: CompiledRun, *, launch: int, attempt: int, seconds_left: int | None, waits: int = 0
) -> Object:
    snapshot, volumes = compiled.snapshot, _volumes(compiled)
    placement = snapshot.placement.to_manifest()
    spread = placement.pop("topologySpreadConstraints", [])
    if spread and snapshot.shards > 1:
        selector = {"matchLabels": {wellknown.LABEL_RUN_UID: run.uid}}
        placement["topologySpreadConstraints"] = [{**one, "labelSelector": selector} for one in spread]
    security: Object = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if snapshot.run_as_user is not None:
        security["runAsUser"] = snapshot.run_as_user
    if snapshot.has_fixed_group:
        security["runAsGroup"] = GROUP_ID
    if snapshot.claims and snapshot.has_fixed_group:
        security |= {"fsGroup": GROUP_ID, "fsGroupChangePolicy": "OnRootMismatch"}
    mounts = [mount for _, places in volumes for mount in places]
    container: Object = {
        "name": CONTAINER,
        "image": snapshot.image,
        "env": [
            {"name": "pod_uid", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            *_variables(_environment(compiled, launch=launch, attempt=attempt, seconds_left=seconds_left)),
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError" if snapshot.is_our_runner else "File",
        "securityContext": CONTAINER_SECURITY
        | ({"readOnlyRootFilesystem": True} if snapshot.is_root_read_only else {}),
        "volumeMounts": mounts,
    }
    if snapshot.image_pull_policy:
        container["imagePullPolicy"] = snapshot.image_pull_policy
    if snapshot.resources:
        container["resources"] = snapshot.resources
    spec: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": STOP.grace,
        "enableServiceLinks": False,
        "automountServiceAccountToken": bool(snapshot.service_account),
        "securityContext": security,
        "volumes": [volume for volume, _ in volumes],
        "containers": [container],
        **placement,
    }
    if snapshot.warm_up_limit:
        # Waits until the model answers. It is our image for custom images too, and requests no more than the container after it, so
        # that it does not change what the Pod requests.
        own = {"HOME": "/tmp", "INFERRUN_WARM_UP_SECONDS": str(snapshot.warm_up_limit)}  # noqa: S108
        warm_up: Object = {
            "name": WARM_UP_CONTAINER,
            "image": snapshot.warm_up_image,
            "command": list(WARM_UP_COMMAND),
            "env": _variables(own | _addresses(snapshot)),
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": CONTAINER_SECURITY | {"readOnlyRootFilesystem": True},
            "volumeMounts": [one for one in mounts if one["name"] in WARM_UP_VOLUMES],
        }
        if resources := _resources(snapshot, "cpu", "memory", "ephemeral-storage"):
            warm_up["resources"] = resources
        spec["initContainers"] = [warm_up]
    if snapshot.service_account:
        spec["serviceAccountName"] = snapshot.service_account
    if snapshot.pull_secret:
        spec["imagePullSecrets"] = [{"name": snapshot.pull_secret}]
    if seconds_left is not None:
        margin = deadline_margin(snapshot, waits=waits) + snapshot.warm_up_limit
        spec["activeDeadlineSeconds"] = seconds_left + margin
    return spec


def _variables(plain: Mapping[str, str]) -> list[Object]:
    return [{"name": name, "value": value} for name, value in plain.items()]


def _environment(compiled: CompiledRun, *, launch: int, attempt: int, seconds_left: int | None) -> dict[str, str]:
    """What differs between launches, and for our runner its limits. Those that the config sets keep their value, except for a
    timeout that is longer than that of KServe's object: a request that the server cuts off has cost a replica that time.
    """
    snapshot, service = compiled.snapshot, compiled.service
    plain = {"INFERRUN_LAUNCH": str(launch), "INFERRUN_ATTEMPT": str(attempt)}
    if (interval := compiled.interval) is not None:
        plain |= {"INFERRUN_INTERVAL_START": interval.start, "INFERRUN_INTERVAL_END": interval.end}
    if snapshot.shards > 1:
        plain["INFERRUN_SHARDS"] = str(snapshot.shards)
    if seconds_left is not None:
        plain["INFERRUN_SECONDS_LEFT"] = str(seconds_left)
    if not snapshot.is_our_runner:
        return plain | _ca_bundle_variable(snapshot)
    limits, of_model = snapshot.limits, dict[str, str]()
    if service is not None:
        # The runner begins with as many requests as the replicas accept at a time, and finds out whether more are of use.
        start = 1 if "INFERRUN_CONCURRENCY" in limits else min(max(1, service.concurrency), MAX_CONCURRENCY)
        of_model["INFERRUN_START_CONCURRENCY"] = str(start)
        wanted = float(limits.get("INFERRUN_REQUEST_TIMEOUT", Limits().request_timeout))
        allowed = max(1.0, service.request_seconds * BELOW_THE_LIMIT)
        if service.request_seconds and wanted > allowed:
            of_model["INFERRUN_REQUEST_TIMEOUT"] = f"{allowed:g}"
    own = {"HOME": "/tmp", "INFERRUN_POST_LIMIT": str(snapshot.krateo_post_limit_bytes)}  # noqa: S108
    return plain | own | _addresses(snapshot) | limits | of_model


def _addresses(snapshot: Snapshot) -> dict[str, str]:
    """The addresses with which our programs may speak, and whom they trust; without empty lists."""
    lists = {
        "INFERRUN_ALLOWED_ADDRESSES": snapshot.allowed_addresses,
        "INFERRUN_REFUSED_ADDRESSES": snapshot.refused_addresses,
    }
    given = {name: ",".join(addresses) for name, addresses in lists.items() if addresses}
    return given | _ca_bundle_variable(snapshot)


def _ca_bundle_variable(snapshot: Snapshot) -> dict[str, str]:
    return {"INFERRUN_CA_BUNDLE": f"{CA_BUNDLE_PATH}/{CA_BUNDLE_FILE}"} if snapshot.ca_bundle else {}


def _volumes(compiled: CompiledRun) -> list[tuple[Object, list[Object]]]:
    snapshot = compiled.snapshot
    contract = {"name": compiled.config_map, "items": [{"key": "contract.json", "path": "contract.json"}]}
    at_tmp = {"mountPath": "/tmp"}  # noqa: S108
    at_contract = {"mountPath": CONTRACT_PATH, "subPath": "contract.json", "readOnly": True}
    volumes = [
        _mounted("tmp", {"emptyDir": {"sizeLimit": snapshot.tmp_size} if snapshot.tmp_size else {}}, at_tmp),
        _mounted("contract", {"configMap": contract}, at_contract),
    ]
    # A custom image looks up its Secret itself, so a missing Secret must not keep the Pod from starting.
    optional = not snapshot.is_our_runner
    secrets = {one.end: one.secret for one in snapshot.endpoints}
    for side in dict.fromkeys((*secrets, *snapshot.token_audiences)):
        source: Object = {"secret": {"secretName": secrets.get(side), "optional": optional, "defaultMode": 0o444}}
        if audience := snapshot.token_audiences.get(side):
            token = {"audience": audience, "expirationSeconds": TOKEN_SECONDS, "path": "token"}
            beside = [{"secret": {"name": secrets[side], "optional": optional}}] if side in secrets else []
            source = _projected([*beside, {"serviceAccountToken": token}])
        volumes.append(_mounted(f"endpoint-{side}", source, _read_only(side)))
    headers: dict[str, list[Object]] = {}
    for header in snapshot.header_secrets:  # each becomes a file that is named after its place in the list
        item = {"key": header.key, "path": str(header.index)}
        secret = {"name": header.secret, "items": [item], "optional": optional}
        headers.setdefault(header.end, []).append({"secret": secret})
    for end, sources in headers.items():
        volumes.append(_mounted(f"headers-{end}", _projected(sources), _read_only(f"{end}-headers")))
    service, target = compiled.service, snapshot.service
    if service is not None and service.ca_secret and target is not None and target.is_at_home:
        # A Pod can mount only Secrets of its namespace.
        items = [{"key": key, "path": key} for key in MODEL_CA_KEYS]
        secret = {"secretName": service.ca_secret, "optional": True, "items": items, "defaultMode": 0o444}
        volumes.append(_mounted(MODEL_CA_VOLUME, {"secret": secret}, _read_only(MODEL_CA_VOLUME)))
    if (bundle := snapshot.ca_bundle) is not None:
        source = {"name": bundle.config_map, "items": [{"key": bundle.key, "path": CA_BUNDLE_FILE}]}
        volumes.append(
            _mounted(CA_BUNDLE_VOLUME, {"configMap": source}, {"mountPath": CA_BUNDLE_PATH, "readOnly": True})
        )
    if (prompt := snapshot.system_prompt) is not None:
        source = {"name": prompt.config_map, "items": [{"key": prompt.key, "path": "system"}]}
        volumes.append(_mounted(SYSTEM_PROMPT_VOLUME, {"configMap": source}, _read_only("request")))
    for name in dict.fromkeys(claim.name for claim in snapshot.claims):  # input and output may use the same one
        ends = [claim.end for claim in snapshot.claims if claim.name == name]
        places = [{"mountPath": f"{DATA_PATH}/{end}", "readOnly": end == "input"} for end in ends]
        volumes.append(_mounted(f"data-{ends[0]}", {"persistentVolumeClaim": {"claimName": name}}, *places))
    return volumes


def _mounted(name: str, source: Object, *places: Object) -> tuple[Object, list[Object]]:
    return {"name": name, **source}, [{"name": name, **place} for place in places]


def _read_only(folder: str) -> Object:
    return {"mountPath": f"{ENDPOINTS_PATH}/{folder}", "readOnly": True}


def _projected(sources: list[Object]) -> Object:
    return {"projected": {"sources": sources, "defaultMode": 0o444}}
