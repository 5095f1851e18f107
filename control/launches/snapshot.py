"""What a run executes, fixed when it starts: the contract for the runner and the snapshot for the control plane.

Pure. Both are stored in one immutable ConfigMap; later edits of the config, the run or the settings do not affect them.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, Self

from pydantic import ConfigDict, Field

from control.trust.signatures import CONTRACT_KEY, SNAPSHOT_KEY
from inferrun import contract as contracts
from inferrun import wellknown
from inferrun.contract import Model, ServiceRef
from inferrun.kserve import Wanted
from inferrun.reasons import Reason
from inferrun.resources import AutoDeletePolicy, InferenceRun, ModelStatus
from inferrun.resources.config import AUTO_DELETE_DELAY_SECONDS, RUN_AS_USER
from inferrun.resources.placement import Placement
from inferrun.run_defaults import matches
from inferrun.text import public_url
from workflows.messages import Frozen

MAX_BYTES: Final = 2048
"""The size of all annotations that are passed on, keys included: they are part of the snapshot."""

_OWN: Final = (f"{wellknown.DOMAIN}/*", "krateo.io/*", "*.krateo.io/*")


def propagated_labels(run: InferenceRun, *, allowed: Collection[str]) -> dict[str, str]:
    """The labels with these keys: some, such as a priority, are not the user's to choose."""
    return {key: value for key, value in run.metadata.labels.items() if key in allowed}


def propagated_annotations(run: InferenceRun, *, excluded: Collection[str]) -> dict[str, str]:
    """The annotations whose key matches none of these patterns, nor is ours; as many as fit, in the order of their keys."""
    found: dict[str, str] = {}
    size = 0
    for key, value in sorted(run.metadata.annotations.items()):
        if matches(key, (*_OWN, *excluded)):
            continue
        size += len(key.encode()) + len(value.encode())
        if size > MAX_BYTES:
            break
        found[key] = value
    return found


End = Literal["input", "output"]
SecretEnd = Literal["input", "output", "model"]


class EndpointSecret(Frozen):
    """The Secret of an input, an output or the model server, and the namespace that its reference names."""

    end: SecretEnd
    secret: str
    named_namespace: str = ""


class HeaderSecret(Frozen):
    """The key of a Secret that holds the value of a header; `index` is its place in the list of the end's headers."""

    end: SecretEnd
    index: int
    secret: str
    key: str


class MountedClaim(Frozen):
    """The PersistentVolumeClaim of an input or output."""

    end: End
    name: str


class MountedKey(Frozen):
    """A key of a ConfigMap that is mounted: with certificates of authorities, or with a system message."""

    config_map: str
    key: str


class WantedService(ServiceRef):
    """The object of KServe that serves the model, and what the config says about the model itself."""

    model_config = ConfigDict(protected_namespaces=())

    model_name: str = ""
    protocol: str = ""
    is_our_runner: bool = True
    is_at_home: bool = True
    """Whether the object is in the run's namespace."""

    @property
    def wanted(self) -> Wanted:
        """The settings of the config that take precedence."""
        return Wanted(model_name=self.model_name, protocol=self.protocol, is_our_runner=self.is_our_runner)


class Snapshot(Frozen):
    """Everything besides the contract that a launch needs. The limits have no defaults here: they come from the config
    and from `inferrun.run_defaults`, and a stored snapshot contains all of them.
    """

    image: str
    is_our_runner: bool
    image_pull_policy: str | None = None
    pull_secret: str | None = None
    pull_secret_namespace: str = ""
    run_as_user: int | None = RUN_AS_USER
    """None: the cluster assigns one."""

    has_fixed_group: bool = True
    service_account: str = ""
    token_audiences: dict[SecretEnd, str] = Field(default_factory=dict)
    """Audiences of the tokens of the service account that are mounted for an end."""

    has_azure_identity: bool = False
    """Whether Azure's webhook is to give the Pod the identity of its service account."""

    resources: dict[str, dict[str, str]] = Field(default_factory=dict)
    placement: Placement = Placement()
    tmp_size: str = ""
    is_root_read_only: bool = False
    endpoints: tuple[EndpointSecret, ...] = ()
    header_secrets: tuple[HeaderSecret, ...] = ()
    claims: tuple[MountedClaim, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    pending_timeout_seconds: int = 0
    backoff_limit: int
    max_disruptions: int
    deadline_margin_seconds: int
    auto_delete_delay_seconds: int = AUTO_DELETE_DELAY_SECONDS
    auto_delete_policy: AutoDeletePolicy = AutoDeletePolicy.NONE
    ttl_seconds_after_finished: int
    krateo_post_limit_bytes: int
    limits: dict[str, str] = Field(default_factory=dict)
    foreign_log_tail: bool = False
    allowed_addresses: tuple[str, ...] = ()
    refused_addresses: tuple[str, ...] = ()
    service: WantedService | None = None
    """None: the model has a fixed URL."""

    warm_up_limit: int = 0
    """0: the Pod has no init container."""

    warm_up_image: str = ""
    ca_bundle: MountedKey | None = None
    system_prompt: MountedKey | None = None
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
    `stored_snapshot` is the snapshot's text if it was read: another version may have written it, and its digest is in the status.
    """

    base_name: str
    contract_json: str
    snapshot: Snapshot
    map_name: str = ""
    stored_snapshot: str = field(default="", compare=False)

    @property
    def config_map(self) -> str:
        return self.map_name or self.base_name

    @cached_property
    def model(self) -> Model:
        return Model.model_validate(json.loads(self.contract_json).get("kserve") or {})

    @cached_property
    def interval(self) -> contracts.DataInterval | None:
        found = json.loads(self.contract_json).get("interval")
        return contracts.DataInterval.model_validate(found) if found else None

    @property
    def input_run(self) -> contracts.InputRun | None:
        """The run whose output is the input; None for another input."""
        found = json.loads(self.contract_json or "{}").get("inputRun")
        return contracts.InputRun.model_validate(found) if found else None

    @property
    def service(self) -> contracts.ModelService | None:
        """The object of KServe that serves the model, as the contract has it; None for a model with a fixed URL."""
        return self.model.service if self.snapshot.service is not None else None

    @classmethod
    def read(cls, texts: Mapping[str, str], *, base_name: str) -> Self:
        """The texts of a run's ConfigMap, read back. They must have been recognised as ours. Raises KeyError or ValueError."""
        snapshot = texts[SNAPSHOT_KEY]
        return cls(base_name, texts[CONTRACT_KEY], Snapshot.model_validate_json(snapshot), stored_snapshot=snapshot)

    @property
    def snapshot_json(self) -> str:
        return self.stored_snapshot or self.snapshot.model_dump_json()

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the ConfigMap by key."""
        return {CONTRACT_KEY: self.contract_json, SNAPSHOT_KEY: self.snapshot_json}


def model_status(compiled: CompiledRun) -> dict[str, Any] | None:  # Any: a model's fields
    """The model as a launch uses it; None for one with a fixed URL."""
    service = compiled.service
    if service is None:
        return None
    model = compiled.model
    return ModelStatus(
        kind=service.kind,
        name=service.name,
        namespace=service.namespace,
        url=public_url(model.model_url),
        model_name=model.model_name,
        protocol=model.protocol_version,
        generation=service.generation or None,
        revision=service.revision or None,
        warning=service.warning or None,
    ).model_dump()


def waiting_for(service: ServiceRef | None, *, before: ModelStatus | None) -> dict[str, Any] | None:  # Any: as above
    """The model that a launch waits for; None for a launch that waits for something else."""
    if service is None:
        return None
    names = {"kind": service.kind, "name": service.name, "namespace": service.namespace}
    return names if before is None else before.model_dump() | names


def at_the_end(before: ModelStatus | None, *, generation: int | None, revision: str) -> dict[str, Any] | None:
    """The model of a run that ends, with what the object is now; None for a run that used no such model."""
    if before is None or before.generation is None or generation is None:
        return None
    return {**before.model_dump(), "end_generation": generation, "end_revision": revision or None}


def drift(model: ModelStatus | None) -> str:
    """The changes of the object between the start of the last launch and the end of the run; empty if nothing has."""
    if model is None or model.generation is None or model.end_generation is None:
        return ""
    changes = []
    if model.generation != model.end_generation:
        changes.append(f"generation {model.generation} became {model.end_generation}")
    if model.revision != model.end_revision:
        changes.append(f"revision {model.revision or 'none'} became {model.end_revision or 'none'}")
    subject = f"{model.kind} {model.namespace}/{model.name} changed while the run used it"
    return f"{subject}: {' and '.join(changes)}; its predictions may come from two models" if changes else ""
