"""What a run executes, fixed when it starts: the contract for the runner and the snapshot for the
control plane.

Pure. Both are stored in one immutable ConfigMap; later edits of the config, the run or the settings
do not affect them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from pydantic import ConfigDict

from inferrun import contract as contracts
from inferrun.contract import Model, ServiceRef
from inferrun.kserve import Wanted
from inferrun.launches.pod_identity import PodIdentity, identity_of
from inferrun.launches.pod_limits import PodLimits, limits_of
from inferrun.launches.pod_mounts import FreeForm, PodMounts, mounts_of
from inferrun.launches.pod_placement import PodPlacement, placement_of
from inferrun.launches.run_texts import CONTRACT_KEY, SNAPSHOT_KEY
from inferrun.reasons import Reason
from inferrun.resources import AutoDeletePolicy, InferenceConfig, InferenceRun, ModelStatus
from inferrun.resources.config import AUTO_DELETE_DELAY_SECONDS
from inferrun.run_defaults import Defaults
from inferrun.text import public_url


class WantedService(ServiceRef):
    """The object of KServe that serves the model, and what the config says about the model
    itself."""

    model_config = ConfigDict(protected_namespaces=())

    model_name: str = ""
    protocol: str = ""
    is_our_runner: bool = True
    is_at_home: bool = True
    """Whether the object is in the run's namespace."""

    @property
    def wanted(self) -> Wanted:
        """The settings of the config that take precedence."""
        return Wanted(
            model_name=self.model_name, protocol=self.protocol, is_our_runner=self.is_our_runner
        )


class Snapshot(PodIdentity, PodMounts, PodLimits, PodPlacement):
    """Everything besides the contract that a launch needs: the values of its Pods, and what becomes
    of the run. The limits have no defaults here: they come from the config and from
    `inferrun.run_defaults`, and a stored snapshot contains all of them.
    """

    pending_timeout_seconds: int = 0
    backoff_limit: int
    max_disruptions: int
    auto_delete_delay_seconds: int = AUTO_DELETE_DELAY_SECONDS
    auto_delete_policy: AutoDeletePolicy = AutoDeletePolicy.NONE
    ttl_seconds_after_finished: int
    foreign_log_tail: bool = False
    service: WantedService | None = None
    """None: the model has a fixed URL."""

    is_dry_run: bool = False

    @property
    def success(self) -> Reason:
        """The reason with which the built-in runner reports that it has done what it was asked."""
        return Reason.DRY_RUN_SUCCEEDED if self.is_dry_run else Reason.SUCCEEDED


def snapshot_of(
    run: InferenceRun,
    config: InferenceConfig,
    *,
    defaults: Defaults,
    runner_account: str,
    input_storage: FreeForm | None,
) -> Snapshot:
    """The snapshot of a run that starts now, and whose input is `input_storage`."""
    spec = config.spec
    identity = identity_of(config, defaults=defaults, runner_account=runner_account)
    is_ours = identity.is_our_runner
    backoff_limits = (run.spec.backoff_limit, spec.backoff_limit, defaults.backoff_limit)
    seconds_kept = spec.ttl_seconds_after_finished
    return Snapshot(
        **dict(identity),
        **dict(mounts_of(config, input_storage=input_storage, is_our_runner=is_ours)),
        **dict(limits_of(run, config, defaults=defaults, is_our_runner=is_ours)),
        **dict(placement_of(run, config, defaults=defaults)),
        pending_timeout_seconds=run.spec.pending_timeout_seconds or 0,
        backoff_limit=next(one for one in backoff_limits if one is not None),
        max_disruptions=defaults.max_disruptions,
        auto_delete_policy=spec.auto_delete_policy or AutoDeletePolicy.NONE,
        auto_delete_delay_seconds=spec.delete_after_seconds,
        ttl_seconds_after_finished=defaults.job_ttl_seconds
        if seconds_kept is None
        else seconds_kept,
        foreign_log_tail=defaults.foreign_log_tail,
        service=service_of(run, config, runner_image=defaults.runner_image),
        is_dry_run=bool(run.spec.dry_run),
    )


def service_of(
    run: InferenceRun, config: InferenceConfig, *, runner_image: str
) -> WantedService | None:
    """The object that serves the model; None if the config has a URL, or no model."""
    model = config.spec.model
    reference = model.service_ref
    if reference is None:
        return None
    return WantedService(
        kind=str(reference.kind),
        namespace=reference.namespace or run.metadata.namespace,
        name=reference.name,
        is_at_home=reference.namespace in (None, run.metadata.namespace),
        model_name=model.model_name or "",
        protocol=model.protocol_version or model.model_version or "",
        is_our_runner=config.spec.image in (None, runner_image),
    )


@dataclass(frozen=True)
class CompiledRun:
    """The contract as stored in a run's ConfigMap, and the snapshot.

    `map_name` is the name of another ConfigMap, for a launch whose model has another address than
    that of the first one. `stored_snapshot` is the snapshot's text if it was read: another version
    may have written it, and its digest is in the status.
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
        """The object of KServe that serves the model, as the contract has it; None for a model with
        a fixed URL."""
        return self.model.service if self.snapshot.service is not None else None

    @property
    def ca_secret(self) -> str:
        """The Secret with the certificate of the model's server; empty for none, and if it is in
        another namespace: a Pod can mount only Secrets of its own.
        """
        wanted, service = self.snapshot.service, self.service
        return (
            service.ca_secret
            if wanted is not None and service is not None and wanted.is_at_home
            else ""
        )

    @classmethod
    def read(cls, texts: Mapping[str, str], *, base_name: str) -> Self:
        """The texts of a run's ConfigMap, read back. They must have been recognised as ours. Raises
        KeyError or ValueError."""
        snapshot = texts[SNAPSHOT_KEY]
        return cls(
            base_name,
            texts[CONTRACT_KEY],
            Snapshot.model_validate_json(snapshot),
            stored_snapshot=snapshot,
        )

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


# Any: as above
def waiting_for(service: ServiceRef | None, *, before: ModelStatus | None) -> dict[str, Any] | None:
    """The model that a launch waits for; None for a launch that waits for something else."""
    if service is None:
        return None
    names = {"kind": service.kind, "name": service.name, "namespace": service.namespace}
    return names if before is None else before.model_dump() | names


def at_the_end(
    before: ModelStatus | None, *, generation: int | None, revision: str
) -> dict[str, Any] | None:
    """The model of a run that ends, with what the object is now; None for a run that used no such
    model."""
    if before is None or before.generation is None or generation is None:
        return None
    return {**before.model_dump(), "end_generation": generation, "end_revision": revision or None}


def drift(model: ModelStatus | None) -> str:
    """The changes of the object between the start of the last launch and the end of the run; empty
    if nothing has."""
    if model is None or model.generation is None or model.end_generation is None:
        return ""
    changes = []
    if model.generation != model.end_generation:
        changes.append(f"generation {model.generation} became {model.end_generation}")
    if model.revision != model.end_revision:
        changes.append(f"revision {model.revision or 'none'} became {model.end_revision or 'none'}")
    subject = f"{model.kind} {model.namespace}/{model.name} changed while the run used it"
    return (
        f"{subject}: {' and '.join(changes)}; its predictions may come from two models"
        if changes
        else ""
    )
