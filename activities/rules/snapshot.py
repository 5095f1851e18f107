"""What a run executes, fixed when it starts: the contract for the runner and the snapshot for the control plane.

Pure. Both are stored in one immutable ConfigMap; later edits of the config, the run or the settings do not affect them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from activities.rules.inheritance import propagated_annotations, propagated_labels
from activities.rules.launch_blocked import LaunchBlocked
from activities.rules.retried_run import check_storage, retried_run
from inferrun import contract as contracts
from inferrun.contract import MAX_BYTES, Contract, Model, Tensors, dump_contract
from inferrun.control.run_defaults import Defaults, amounts_of
from inferrun.kserve import ModelAddress, Wanted
from inferrun.names import LABEL_LIMIT, job_base_name
from inferrun.reasons import Reason
from inferrun.resources import AutoDeletePolicy, InferenceConfig, InferenceRun, KServeModel
from inferrun.resources.config import CA_BUNDLE_KEY, RUN_AS_USER, JoinSource, ModelRequests, ResourceRequirements
from inferrun.resources.sharding import shard_obstacle
from inferrun.resources.storage import CLAIM_KEY, KRATEO_LABEL, SCHEMA_LABELS, SECRET_KEYS
from inferrun.resources.validation import amount
from inferrun.service_ref import ServiceRef

End = Literal["input", "output"]
SecretUser = Literal["input", "output", "model"]

CONTRACT_KEY = "contract.json"
SNAPSHOT_KEY = "snapshot.json"
"""The keys of a run's ConfigMap."""


class Endpoint(BaseModel):
    """The Secret of an input, an output or the model server, and the namespace that its reference names."""

    model_config = ConfigDict(frozen=True)

    end: SecretUser
    secret: str
    named_namespace: str = ""


class HeaderSecret(BaseModel):
    """The key of a Secret that holds the value of a header of a `krateo` input or output; `index` is its place in the list."""

    model_config = ConfigDict(frozen=True)

    end: End
    index: int
    secret: str
    key: str


class Claim(BaseModel):
    """The PersistentVolumeClaim of an input or output."""

    model_config = ConfigDict(frozen=True)

    end: End
    name: str


class CABundle(BaseModel):
    """The key of a ConfigMap with certificates of authorities."""

    model_config = ConfigDict(frozen=True)

    config_map: str
    key: str


class ModelService(ServiceRef):
    """The object of KServe that serves the model, and what the config says about the model itself."""

    model_config = ConfigDict(protected_namespaces=())

    model_name: str = ""
    protocol: str = ""
    is_our_runner: bool = True
    is_at_home: bool = True
    """Whether the object is in the run's namespace."""

    @property
    def wanted(self) -> Wanted:
        """What the answer must respect."""
        return Wanted(model_name=self.model_name, protocol=self.protocol, is_our_runner=self.is_our_runner)


class Snapshot(BaseModel):
    """Everything besides the contract that a launch needs. The limits have no defaults here: they come from the config
    and from `inferrun.control.run_defaults`, and a stored snapshot contains all of them.
    """

    model_config = ConfigDict(frozen=True)

    image: str
    is_our_runner: bool
    image_pull_policy: str | None = None
    pull_secret: str | None = None
    pull_secret_namespace: str = ""
    run_as_user: int | None = RUN_AS_USER
    """None: the cluster assigns one."""

    has_fixed_group: bool = True
    service_account: str = ""
    model_token_audience: str = ""
    """Audience of the token of the service account that is mounted for the model server; empty: none."""

    resources: dict[str, dict[str, str]] = {}
    tmp_size: str = ""
    is_root_read_only: bool = False
    endpoints: tuple[Endpoint, ...] = ()
    header_secrets: tuple[HeaderSecret, ...] = ()
    claims: tuple[Claim, ...] = ()
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    pending_timeout_seconds: int = 0
    backoff_limit: int
    max_disruptions: int
    deadline_margin_seconds: int
    auto_delete_policy: AutoDeletePolicy = AutoDeletePolicy.NONE
    auto_delete_delay_seconds: int
    ttl_seconds_after_finished: int
    krateo_post_limit_bytes: int
    limits: dict[str, str] = {}
    foreign_log_tail: bool = False
    allowed_addresses: tuple[str, ...] = ()
    refused_addresses: tuple[str, ...] = ()
    service: ModelService | None = None
    """None: the model has a fixed URL."""

    warm_up_limit: int = 0
    """0: the Pod has no init container."""

    warm_up_image: str = ""
    ca_bundle: CABundle | None = None
    is_dry_run: bool = False
    shards: int = 1
    """Number of Pods of a launch."""

    @property
    def success(self) -> Reason:
        """The reason with which the built-in runner reports that it has done what it was asked."""
        return Reason.DRY_RUN_SUCCEEDED if self.is_dry_run else Reason.SUCCEEDED


@dataclass(frozen=True)
class CompiledRun:
    """The contract as stored in a run's ConfigMap, and the snapshot.

    `map_name` is the name of another ConfigMap, for a launch whose model has another address than that of the first one.
    """

    base_name: str
    contract_json: str
    snapshot: Snapshot
    map_name: str = ""

    @property
    def config_map(self) -> str:
        """The name of the ConfigMap."""
        return self.map_name or self.base_name

    @cached_property
    def model(self) -> Model:
        """The model in the contract."""
        return Model.model_validate(json.loads(self.contract_json).get("kserve") or {})

    @property
    def service(self) -> contracts.ModelService | None:
        """The object of KServe that serves the model, as the contract has it; None for a model with a fixed URL."""
        return self.model.service if self.snapshot.service is not None else None

    def with_model(self, address: ModelAddress) -> "CompiledRun":
        """The same with the model at this address; itself, if that changes nothing. Raises LaunchBlocked if it is too large."""
        if self.snapshot.service is None:
            return self
        contract = Contract.model_validate_json(self.contract_json)
        model = _model_at(address, contract.kserve, service=self.snapshot.service)
        contract_json = dump_contract(contract.model_copy(update={"kserve": model}))
        if contract_json == self.contract_json:
            return self
        _check_size(contract_json, self.snapshot_json)
        name = f"{self.base_name}-m{hash_of({CONTRACT_KEY: contract_json})[:10]}"
        return CompiledRun(self.base_name, contract_json, self.snapshot, name)

    @property
    def snapshot_json(self) -> str:
        """The snapshot as compact JSON."""
        absent = {"shards"} if self.snapshot.shards == 1 else None
        return self.snapshot.model_dump_json(exclude_defaults=False, exclude=absent)

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the ConfigMap by key."""
        return {CONTRACT_KEY: self.contract_json, SNAPSHOT_KEY: self.snapshot_json}


def compile_run(
    run: InferenceRun,
    config: InferenceConfig,
    *,
    defaults: Defaults,
    runner_account: str,
    address: ModelAddress | None = None,
    earlier: InferenceRun | None = None,
) -> CompiledRun:
    """Contract and snapshot of a run; `address` is where the model is, if the config refers to an object that serves it, and
    `earlier` is the run that this one retries.

    `runner_account` is the installation's SA_RUNNER, empty for none; only custom images get it. Raises LaunchBlocked if the
    result is too large.
    """
    base = job_base_name(run.metadata.name, run.metadata.uid)
    snapshot = _snapshot_of(run, config, defaults=defaults, runner_account=runner_account)
    _check_image(run, snapshot)
    _check_shards(run, config, snapshot, base=base)
    contract = _contract_of(run, config, base=base)
    if earlier is not None:
        contract = contract.model_copy(update={"retry_of": retried_run(run, earlier, config)})
        check_storage(run, earlier, contract)
    if address is not None and snapshot.service is not None:
        contract = contract.model_copy(update={"kserve": _model_at(address, contract.kserve, service=snapshot.service)})
    contract_json = dump_contract(contract)
    compiled = CompiledRun(base, contract_json, snapshot)
    _check_size(contract_json, compiled.snapshot_json)
    return compiled


def service_of(run: InferenceRun, config: InferenceConfig, *, runner_image: str) -> ModelService | None:
    """The object that serves the model; None if the config has a URL, or no model."""
    model = config.spec.model
    reference = model.service_ref
    if reference is None:
        return None
    return ModelService(
        kind=str(reference.kind),
        namespace=reference.namespace or run.metadata.namespace,
        name=reference.name,
        is_at_home=reference.namespace in (None, run.metadata.namespace),
        model_name=model.model_name or "",
        protocol=model.protocol_version or model.model_version or "",
        is_our_runner=config.spec.image in (None, runner_image),
    )


def _model_at(address: ModelAddress, model: Model, *, service: ModelService) -> Model:
    """The contract's model with what was found out about it."""
    found = contracts.ModelService(
        kind=service.kind,
        namespace=service.namespace,
        name=service.name,
        generation=address.generation,
        revision=address.revision,
        concurrency=address.concurrency,
        request_seconds=address.request_seconds,
        warning="; ".join((*address.warnings, *_unreachable_authority(address, service))),
        ca_certificates=address.ca_certificates,
        ca_secret=address.ca_secret,
    )
    changes = {
        "model_name": address.model_name,
        "model_url": address.url,
        "protocol_version": address.protocol,
        "service": found,
    }
    return model.model_copy(update=changes)


def _unreachable_authority(address: ModelAddress, service: ModelService) -> tuple[str, ...]:
    """A warning if the model has a certificate of its own in a Secret that the run's Pods cannot mount."""
    if not address.ca_secret or service.is_at_home:
        return ()
    warning = (
        f"the certificate of {service} is in its Secret {address.ca_secret}, which Pods of another namespace cannot mount; copy "
        "the certificate to a ConfigMap in the run's namespace, and name that with spec.caBundle in the InferenceConfig"
    )
    return (warning,)


def _check_image(run: InferenceRun, snapshot: Snapshot) -> None:
    """Raise LaunchBlocked for what only the built-in runner can do: another image would ignore it, and store predictions."""
    asked = {"dryRun": "true" if run.spec.dry_run else "", "retryOf": run.spec.retry_of or ""}
    field, value = next(((field, value) for field, value in asked.items() if value), ("", ""))
    if field and not snapshot.is_our_runner:
        text = (
            f'spec.{field} is "{value}"; it requires the built-in runner, but the InferenceConfig names the image '
            f"{snapshot.image!r}, which would execute the whole run; remove spec.{field}, or spec.image in the config"
        )
        raise LaunchBlocked(Reason.INVALID_SPEC, text, is_retryable=False)


def _check_shards(run: InferenceRun, config: InferenceConfig, snapshot: Snapshot, *, base: str) -> None:
    """Raise LaunchBlocked for a run that cannot be divided among Pods."""
    obstacle = shard_obstacle(
        snapshot.shards,
        image=None if snapshot.is_our_runner else snapshot.image,
        input_labels=config.spec.storage.input or (),
        output_labels=config.spec.storage.output or (),
        canary_records=run.spec.canary_records or config.spec.canary_records,
    ) or _name_obstacle(snapshot.shards, base=base)
    if obstacle:
        raise LaunchBlocked(Reason.INVALID_SPEC, f'spec.shards is "{snapshot.shards}"; {obstacle}', is_retryable=False)


def _name_obstacle(shards: int, *, base: str) -> str:
    """Why the Jobs of a run cannot have that many Pods: Kubernetes names their hosts after the Job and their number."""
    longest = LABEL_LIMIT - len(f"-{MOST_LAUNCHES}-{shards - 1}")
    if shards == 1 or len(base) <= longest:
        return ""
    room = longest + 1 - len(job_base_name("a", "0" * 8))
    return f"more than 1 requires a metadata.name of at most {room} characters, because host names contain it"


def _shards_of(run: InferenceRun, config: InferenceConfig) -> int:
    """A dry run reads only the first records."""
    return 1 if run.spec.dry_run else run.spec.shards or config.spec.shards or 1


MOST_LAUNCHES = 999
"""Launches of a run of several shards whose Jobs have room for their number in their names."""

MAX_SNAPSHOT_BYTES = 8 * 1024
"""Maximum size of a snapshot, which is part of the workflow's messages. A typical one has 1 KiB."""


def _check_size(contract_json: str, snapshot_json: str) -> None:
    contract_size, snapshot_size = len(contract_json.encode()), len(snapshot_json.encode())
    if snapshot_size > MAX_SNAPSHOT_BYTES:
        text = (
            f"the snapshot of the run has {snapshot_size} bytes, at most {MAX_SNAPSHOT_BYTES} are allowed; reduce the run's "
            "labels for queueing systems, its annotations or spec.resources in the InferenceConfig"
        )
        raise LaunchBlocked(Reason.CONTRACT_TOO_LARGE, text)
    if contract_size + snapshot_size <= MAX_BYTES:
        return
    text = (
        f"the contract has {contract_size} bytes and the snapshot {snapshot_size}, together more than the allowed "
        f"{MAX_BYTES}; reduce spec.parameters of the run or spec.storage in the InferenceConfig"
    )
    raise LaunchBlocked(Reason.CONTRACT_TOO_LARGE, text)


def _contract_of(run: InferenceRun, config: InferenceConfig, *, base: str) -> Contract:
    uid = run.metadata.uid
    schedule = run.schedule_owner
    storage = config.spec.storage
    return Contract(
        job_id=schedule.uid if schedule is not None else uid,
        job_name=base,
        run_id=uid,
        kserve=_contract_model(config.spec.model),
        input=dict(storage.input or {}),
        output=dict(storage.output or {}),
        parameters=dict(run.spec.parameters or {}),
        error_threshold=_error_threshold_of(run, config),
        canary_records=run.spec.canary_records or config.spec.canary_records or 0,
        tensors=_tensors_of(config),
        join_source="Input" if config.spec.join_source is JoinSource.INPUT else "",
        pass_through_columns=config.spec.pass_through_columns or (),
        dry_run=bool(run.spec.dry_run),
    )


def _tensors_of(config: InferenceConfig) -> Tensors:
    given = config.spec.tensors
    return Tensors.model_validate(given.to_manifest()) if given else Tensors()


def _error_threshold_of(run: InferenceRun, config: InferenceConfig) -> str:
    values = (run.spec.error_threshold, config.spec.error_threshold)
    return next((str(value) for value in values if value is not None), "")


def _contract_model(model: KServeModel) -> Model:
    return Model(
        model_name=model.model_name or "",
        model_url=model.model_url or "",
        model_version=model.model_version or "",
        model_input_name=model.model_input_name or "",
        protocol_version=model.protocol_version or "",
    )


def _snapshot_of(run: InferenceRun, config: InferenceConfig, *, defaults: Defaults, runner_account: str) -> Snapshot:
    spec = config.spec
    credentials = spec.credentials_ref
    is_our_runner = spec.image in (None, defaults.runner_image)
    warm_up_limit = _warm_up_seconds(spec.model, defaults)
    return Snapshot(
        image=spec.image or defaults.runner_image,
        is_our_runner=is_our_runner,
        image_pull_policy=spec.image_pull_policy,
        pull_secret=credentials.name if credentials else None,
        pull_secret_namespace=(credentials.namespace or "") if credentials else "",
        run_as_user=spec.run_as_user or (RUN_AS_USER if defaults.fixed_user else None),
        has_fixed_group=defaults.fixed_user,
        service_account=spec.service_account_name or ("" if is_our_runner else runner_account),
        model_token_audience=spec.model.token_audience or "",
        resources=_resources_of(config, defaults),
        tmp_size=defaults.runner_tmp_size,
        is_root_read_only=is_our_runner or defaults.custom_images_read_only,
        endpoints=_endpoints_of(config, is_our_runner=is_our_runner),
        header_secrets=_header_secrets_of(config),
        claims=_claims_of(config, is_our_runner=is_our_runner),
        labels=propagated_labels(run, allowed=defaults.propagated_labels),
        annotations=propagated_annotations(run, excluded=defaults.excluded_annotations),
        pending_timeout_seconds=run.spec.pending_timeout_seconds or 0,
        backoff_limit=_first(run.spec.backoff_limit, spec.backoff_limit, defaults.backoff_limit),
        max_disruptions=defaults.max_disruptions,
        deadline_margin_seconds=defaults.deadline_margin_seconds,
        auto_delete_policy=spec.auto_delete_policy or AutoDeletePolicy.NONE,
        auto_delete_delay_seconds=_first(spec.auto_delete_delay_seconds, defaults.auto_delete_delay_seconds),
        ttl_seconds_after_finished=_first(spec.ttl_seconds_after_finished, defaults.job_ttl_seconds),
        krateo_post_limit_bytes=defaults.krateo_post_limit_bytes,
        limits=_limits_of(spec.requests) if is_our_runner and spec.requests else {},
        foreign_log_tail=defaults.foreign_log_tail,
        allowed_addresses=defaults.allowed_addresses,
        refused_addresses=defaults.refused_addresses,
        service=service_of(run, config, runner_image=defaults.runner_image),
        warm_up_limit=warm_up_limit,
        warm_up_image=defaults.runner_image if warm_up_limit else "",
        is_dry_run=bool(run.spec.dry_run),
        ca_bundle=_ca_bundle_of(config),
        shards=_shards_of(run, config),
    )


def _ca_bundle_of(config: InferenceConfig) -> CABundle | None:
    if config.spec.ca_bundle is None:
        return None
    reference = config.spec.ca_bundle.config_map_ref
    return CABundle(config_map=reference.name, key=reference.key or CA_BUNDLE_KEY)


def _warm_up_seconds(model: KServeModel, defaults: Defaults) -> int:
    """By default only a model of KServe is waited for."""
    if model.warm_up_seconds is not None:
        return model.warm_up_seconds
    return defaults.warm_up_seconds if model.service_ref is not None else 0


def _limits_of(requests: ModelRequests) -> dict[str, str]:
    """The runner's limits, by the names of its environment variables."""
    given = {
        "BATCH_ROWS": requests.max_batch_records,
        "REQUEST_SECONDS": requests.target_seconds,
        "CONCURRENCY": requests.concurrency,
        "REQUEST_TIMEOUT": requests.timeout_seconds,
        "HANDLER_TIMEOUT": requests.storage_timeout_seconds,
    }
    return {f"INFERRUN_{name}": str(value) for name, value in given.items() if value is not None}


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)


def _resources_of(config: InferenceConfig, defaults: Defaults) -> dict[str, dict[str, str]]:
    """The config's requests and limits, completed by the defaults for resources that it does not mention.

    A request without a limit keeps the default limit if that is larger; a limit without a request is also the request, as in
    Kubernetes.
    """
    wanted = config.spec.resources or ResourceRequirements()
    requests = {key: str(value) for key, value in (wanted.requests or {}).items()}
    limits = {key: str(value) for key, value in (wanted.limits or {}).items()}
    default_requests, default_limits = amounts_of(defaults.runner_requests), amounts_of(defaults.runner_limits)
    spared = {key: value for key, value in default_requests.items() if key not in requests and key not in limits}
    capped = {
        key: value
        for key, value in default_limits.items()
        if key not in limits and amount(value) >= amount(requests.get(key, "0"))
    }
    parts = {"requests": spared | requests, "limits": capped | limits}
    return {part: amounts for part, amounts in parts.items() if amounts}


def _ends_of(config: InferenceConfig, *, is_our_runner: bool) -> list[tuple[End, dict[str, Any]]]:  # Any: free-form
    """The storage objects whose mounts are ours to provide: those of our labels, and those of plug-ins in the built-in runner."""
    storage = config.spec.storage
    ends: tuple[tuple[End, dict[str, Any] | None], ...] = (("input", storage.input), ("output", storage.output))
    return [
        (end, settings)
        for end, labels in ends
        for label, settings in (labels or {}).items()
        if isinstance(settings, dict) and (is_our_runner or label in SCHEMA_LABELS)
    ]


def _endpoints_of(config: InferenceConfig, *, is_our_runner: bool) -> tuple[Endpoint, ...]:
    found = [_endpoint_of(end, settings) for end, settings in _ends_of(config, is_our_runner=is_our_runner)]
    model = config.spec.model.credentials_ref
    if model is not None:
        found.append(Endpoint(end="model", secret=model.name))
    return tuple(endpoint for endpoint in found if endpoint is not None)


def _endpoint_of(end: End, settings: dict[str, Any]) -> Endpoint | None:  # Any: free-form storage
    for keys in SECRET_KEYS:
        reference: Any = settings  # Any: free-form storage
        for key in keys:
            reference = reference.get(key) if isinstance(reference, dict) else None
        if isinstance(reference, dict) and isinstance(reference.get("name"), str):
            namespace = reference.get("namespace")
            named = namespace if isinstance(namespace, str) else ""
            return Endpoint(end=end, secret=reference["name"], named_namespace=named)
    return None


def _header_secrets_of(config: InferenceConfig) -> tuple[HeaderSecret, ...]:
    storage = config.spec.storage
    ends: tuple[tuple[End, dict[str, Any] | None], ...] = (("input", storage.input), ("output", storage.output))
    found = []
    for end, labels in ends:
        krateo = (labels or {}).get(KRATEO_LABEL)
        call = krateo.get("api") if isinstance(krateo, dict) else None
        sources = call.get("headersFrom") if isinstance(call, dict) else None
        for index, source in enumerate(sources if isinstance(sources, list) else ()):
            reference = source.get("secretKeyRef") if isinstance(source, dict) else None
            if isinstance(reference, dict) and reference.get("name") and reference.get("key"):
                found.append(
                    HeaderSecret(end=end, index=index, secret=str(reference["name"]), key=str(reference["key"]))
                )
    return tuple(found)


def _claims_of(config: InferenceConfig, *, is_our_runner: bool) -> tuple[Claim, ...]:
    found = _ends_of(config, is_our_runner=is_our_runner)
    return tuple(Claim(end=end, name=str(item[CLAIM_KEY])) for end, item in found if item.get(CLAIM_KEY))


def hash_of(texts: Mapping[str, str]) -> str:
    """The digest of the texts of a run's ConfigMap, by which a planted one is recognised."""
    digest = hashlib.sha256()
    for key in (CONTRACT_KEY, SNAPSHOT_KEY):
        text = texts.get(key, "").encode(errors="surrogatepass")
        digest.update(b"%d:" % len(text) + text)
    return digest.hexdigest()


def read_snapshot(texts: Mapping[str, str], *, base_name: str) -> CompiledRun:
    """The texts of a run's ConfigMap, read back. They must have been recognised as ours. Raises KeyError or ValueError."""
    return CompiledRun(base_name, texts[CONTRACT_KEY], Snapshot.model_validate_json(texts[SNAPSHOT_KEY]))
