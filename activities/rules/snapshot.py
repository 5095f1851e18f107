"""What a run executes, fixed when it starts: the contract for the runner and the snapshot for the control plane.

Pure. Both are stored in one immutable ConfigMap; later edits of the config, the run or the settings do not affect them.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from activities.rules.launch_blocked import LaunchBlocked
from inferrun.contract import MAX_BYTES, Contract, Model, dump_contract
from inferrun.control.run_defaults import Defaults
from inferrun.names import job_base_name
from inferrun.reasons import Reason
from inferrun.resources import AutoDeletePolicy, InferenceConfig, InferenceRun, KServeModel
from inferrun.resources.config import RUN_AS_USER, ModelRequests
from inferrun.resources.storage import CLAIM_KEY, SCHEMA_LABELS, SECRET_KEYS

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


class Claim(BaseModel):
    """The PersistentVolumeClaim of an input or output."""

    model_config = ConfigDict(frozen=True)

    end: End
    name: str


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
    resources: dict[str, dict[str, str]] = {}
    endpoints: tuple[Endpoint, ...] = ()
    claims: tuple[Claim, ...] = ()
    labels: dict[str, str] = {}
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


@dataclass(frozen=True)
class CompiledRun:
    """The contract as stored in a run's ConfigMap, and the snapshot."""

    base_name: str
    contract_json: str
    snapshot: Snapshot

    @property
    def snapshot_json(self) -> str:
        """The snapshot as compact JSON."""
        return self.snapshot.model_dump_json(exclude_defaults=False)

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the ConfigMap by key."""
        return {CONTRACT_KEY: self.contract_json, SNAPSHOT_KEY: self.snapshot_json}


def compile_run(run: InferenceRun, config: InferenceConfig, *, defaults: Defaults, runner_account: str) -> CompiledRun:
    """Contract and snapshot of a run.

    `runner_account` is the installation's SA_RUNNER, empty for none; only custom images get it. Raises LaunchBlocked if the
    result is too large.
    """
    base = job_base_name(run.metadata.name, run.metadata.uid)
    contract_json = dump_contract(_contract_of(run, config, base=base))
    compiled = CompiledRun(
        base, contract_json, _snapshot_of(run, config, defaults=defaults, runner_account=runner_account)
    )
    _check_size(contract_json, compiled.snapshot_json)
    return compiled


def _check_size(contract_json: str, snapshot_json: str) -> None:
    contract_size, snapshot_size = len(contract_json.encode()), len(snapshot_json.encode())
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
    )


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
    return Snapshot(
        image=spec.image or defaults.runner_image,
        is_our_runner=is_our_runner,
        image_pull_policy=spec.image_pull_policy,
        pull_secret=credentials.name if credentials else None,
        pull_secret_namespace=(credentials.namespace or "") if credentials else "",
        run_as_user=spec.run_as_user or (RUN_AS_USER if defaults.fixed_user else None),
        has_fixed_group=defaults.fixed_user,
        service_account=spec.service_account_name or ("" if is_our_runner else runner_account),
        resources=_resources_of(config),
        endpoints=_endpoints_of(config, is_our_runner=is_our_runner),
        claims=_claims_of(config, is_our_runner=is_our_runner),
        labels=propagated_labels(run, allowed=defaults.propagated_labels),
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
    )


def propagated_labels(run: InferenceRun, *, allowed: Collection[str]) -> dict[str, str]:
    """The run's labels that what is created for it inherits: some, such as a priority, are not the user's to choose."""
    return {key: value for key, value in run.metadata.labels.items() if key in allowed}


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


def _resources_of(config: InferenceConfig) -> dict[str, dict[str, str]]:
    wanted = config.spec.resources
    if wanted is None:
        return {}
    parts = {"requests": wanted.requests, "limits": wanted.limits}
    return {part: {key: str(value) for key, value in amounts.items()} for part, amounts in parts.items() if amounts}


def _ends_of(config: InferenceConfig, *, is_our_runner: bool) -> list[tuple[End, dict[str, Any]]]:  # Any: free-form
    """The storage objects whose mounts are ours to provide: those of our labels, and those of plug-ins in our runner."""
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
