"""Compiles an InferenceRun, its InferenceConfig and the operator's defaults to a contract and a snapshot. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from control.launches.launch_blocked import LaunchBlocked
from control.launches.retried_run import check_storage, retried_run
from control.launches.snapshot import (
    CompiledRun,
    End,
    EndpointSecret,
    HeaderSecret,
    MountedClaim,
    MountedKey,
    SecretEnd,
    Snapshot,
    WantedService,
    propagated_annotations,
    propagated_labels,
)
from control.trust.signatures import CONTRACT_KEY, hash_of
from inferrun import contract as contracts
from inferrun.contract import MAX_BYTES, Contract, ContractHeader, InputRun, Model, Request, Tensors, dump_contract
from inferrun.fields.problems import describe
from inferrun.kserve import ModelAddress
from inferrun.names import LABEL_LIMIT, job_base_name
from inferrun.reasons import Reason
from inferrun.resources import AutoDeletePolicy, InferenceConfig, InferenceRun, connection
from inferrun.resources.config import CA_BUNDLE_KEY, RUN_AS_USER, JoinSource, ResourceRequirements
from inferrun.resources.resolution import Resolved, resolve
from inferrun.resources.storage import (
    AZURE_LABEL,
    CLAIM_KEY,
    CREDENTIALS_KEY,
    GCS_LABEL,
    KRATEO_LABEL,
    SCHEMA_LABELS,
    SECRET_KEYS,
)
from inferrun.resources.store_rules import shard_obstacle
from inferrun.resources.validation import amount
from inferrun.run_defaults import Defaults, amounts_of
from inferrun.timestamps import rfc3339

_Storage = tuple[End, str, dict[str, Any]]  # Any: free-form storage
"""The end, the label and its object."""

MOST_LAUNCHES = 999
"""Launches of a run of several shards whose Jobs have room for their number in their names."""

MAX_SNAPSHOT_BYTES = 8 * 1024
"""Maximum size of a snapshot, which is part of the workflow's messages. A typical one has 1 KiB."""


def compile_run(
    run: InferenceRun,
    config: InferenceConfig,
    *,
    defaults: Defaults,
    runner_account: str,
    address: ModelAddress | None = None,
    earlier: InferenceRun | None = None,
    input_run: InputRun | None = None,
) -> CompiledRun:
    """Contract and snapshot of a run; `address` is where the model is, if the config refers to an object that serves it,
    `earlier` is the run that this one retries, and `input_run` the one whose output is the input.

    `runner_account` is the installation's SA_RUNNER, empty for none; only custom images get it. Raises LaunchBlocked for what
    the image cannot do, for shards that are impossible, for values that the config does not allow, for a run that cannot be
    retried, and if the result is too large.
    """
    base = job_base_name(run.metadata.name, run.metadata.uid)
    input_storage = input_run.output if input_run is not None else config.spec.storage.input
    snapshot = _snapshot_of(run, config, defaults=defaults, runner_account=runner_account, input_storage=input_storage)
    asked = {"dryRun": "true" if run.spec.dry_run else "", "retryOf": run.spec.retry_of or ""}
    for field, value in asked.items():
        if value and not snapshot.is_our_runner:  # another image would ignore it, and store predictions
            text = (
                f'spec.{field} is "{value}"; it requires the built-in runner, but the InferenceConfig names the image '
                f"{snapshot.image!r}, which would execute the whole run; remove spec.{field}, or spec.image in the config"
            )
            raise LaunchBlocked(Reason.INVALID_SPEC, text, is_retryable=False)
    obstacle = shard_obstacle(
        snapshot.shards,
        image=None if snapshot.is_our_runner else snapshot.image,
        input_labels=config.spec.storage.input or (),
        output_labels=config.spec.storage.output or (),
        canary_records=run.spec.canary_records or config.spec.canary_records,
    )
    # Kubernetes names the hosts of a Job's Pods after the Job and their number.
    longest = LABEL_LIMIT - len(f"-{MOST_LAUNCHES}-{snapshot.shards - 1}")
    if not obstacle and snapshot.shards > 1 and len(base) > longest:
        room = longest + 1 - len(job_base_name("a", "0" * 8))
        obstacle = f"more than 1 requires a metadata.name of at most {room} characters, because host names contain it"
    if obstacle:
        raise LaunchBlocked(Reason.INVALID_SPEC, f'spec.shards is "{snapshot.shards}"; {obstacle}', is_retryable=False)
    resolved = resolve(run, config, is_our_runner=snapshot.is_our_runner)
    if resolved.problems:
        raise LaunchBlocked(Reason.INVALID_SPEC, describe(resolved.problems), is_retryable=False)
    contract = _contract_of(run, config, resolved, base=base).model_copy(update={"input_run": input_run})
    if earlier is not None:
        contract = contract.model_copy(update={"retry_of": retried_run(run, earlier, config)})
        check_storage(run, earlier, contract)
    if address is not None and snapshot.service is not None:
        contract = contract.model_copy(update={"kserve": _model_at(address, contract.kserve, service=snapshot.service)})
    return _checked(CompiledRun(base, dump_contract(contract), snapshot))


def compile_with_model(compiled: CompiledRun, address: ModelAddress) -> CompiledRun:
    """The compiled run with the model at this address; `compiled` itself, if that changes nothing.
    Raises LaunchBlocked for its size."""
    if compiled.snapshot.service is None:
        return compiled
    contract = Contract.model_validate_json(compiled.contract_json)
    model = _model_at(address, contract.kserve, service=compiled.snapshot.service)
    contract_json = dump_contract(contract.model_copy(update={"kserve": model}))
    if contract_json == compiled.contract_json:
        return compiled
    name = f"{compiled.base_name}-m{hash_of({CONTRACT_KEY: contract_json})[:10]}"
    return _checked(replace(compiled, contract_json=contract_json, map_name=name))


def service_of(run: InferenceRun, config: InferenceConfig, *, runner_image: str) -> WantedService | None:
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


def _model_at(address: ModelAddress, model: Model, *, service: WantedService) -> Model:
    warnings = list(address.warnings)
    if address.ca_secret and not service.is_at_home:
        warnings.append(
            f"the certificate of {service} is in its Secret {address.ca_secret}, which Pods of another namespace cannot mount; "
            "copy the certificate to a ConfigMap in the run's namespace, and name that with spec.caBundle in the InferenceConfig"
        )
    found = contracts.ModelService(
        kind=service.kind,
        namespace=service.namespace,
        name=service.name,
        generation=address.generation,
        revision=address.revision,
        concurrency=address.concurrency,
        request_seconds=address.request_seconds,
        warning="; ".join(warnings),
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


def _checked(compiled: CompiledRun) -> CompiledRun:
    """The compiled run, unless it is too large. Raises LaunchBlocked."""
    contract_size, snapshot_size = len(compiled.contract_json.encode()), len(compiled.snapshot_json.encode())
    if snapshot_size > MAX_SNAPSHOT_BYTES:
        text = (
            f"the snapshot of the run has {snapshot_size} bytes, at most {MAX_SNAPSHOT_BYTES} are allowed; reduce the run's "
            "labels for queueing systems, its annotations, or spec.resources or spec.affinity in the InferenceConfig"
        )
        raise LaunchBlocked(Reason.CONTRACT_TOO_LARGE, text)
    if contract_size + snapshot_size > MAX_BYTES:
        text = (
            f"the contract has {contract_size} bytes and the snapshot {snapshot_size}, together more than the allowed "
            f"{MAX_BYTES}; reduce spec.parameters of the run or spec.storage in the InferenceConfig"
        )
        raise LaunchBlocked(Reason.CONTRACT_TOO_LARGE, text)
    return compiled


def _contract_of(run: InferenceRun, config: InferenceConfig, resolved: Resolved, *, base: str) -> Contract:
    uid, schedule, spec, model = run.metadata.uid, run.schedule_owner, config.spec, config.spec.model
    thresholds, span = (run.spec.error_threshold, spec.error_threshold), run.spec.interval
    return Contract(
        job_id=schedule.uid if schedule is not None else uid,
        job_name=base,
        run_id=uid,
        kserve=Model(
            model_name=model.model_name or "",
            model_url=model.model_url or "",
            model_version=model.model_version or "",
            model_input_name=model.model_input_name or "",
            protocol_version=model.protocol_version or "",
            headers=tuple(ContractHeader(name=one.name, value=one.value or "") for one in model.headers or ()),
            proxy_url=model.proxy_url or "",
        ),
        input=resolved.input,
        output=resolved.output,
        parameters=resolved.parameters,
        interval=contracts.DataInterval(start=rfc3339(span.start), end=rfc3339(span.end)) if span is not None else None,
        error_threshold=next((str(one) for one in thresholds if one is not None), ""),
        canary_records=run.spec.canary_records or spec.canary_records or 0,
        request=Request.model_validate(spec.request.to_manifest()) if spec.request else None,
        tensors=Tensors.model_validate(spec.tensors.to_manifest()) if spec.tensors else Tensors(),
        join_source="Input" if spec.join_source is JoinSource.INPUT else "",
        pass_through_columns=spec.pass_through_columns or (),
        dry_run=bool(run.spec.dry_run),
    )


def _snapshot_of(
    run: InferenceRun,
    config: InferenceConfig,
    *,
    defaults: Defaults,
    runner_account: str,
    input_storage: dict[str, Any] | None,  # Any: free-form storage
) -> Snapshot:
    spec, model, requests = config.spec, config.spec.model, config.spec.requests
    credentials, bundle = spec.credentials_ref, spec.ca_bundle
    source = spec.request.system_from if spec.request else None
    system = source.config_map_key_ref if source else None
    is_our_runner = spec.image in (None, defaults.runner_image)
    warm_up_limit = model.warm_up_seconds  # by default only a model of KServe is waited for
    if warm_up_limit is None:
        warm_up_limit = defaults.warm_up_seconds if model.service_ref is not None else 0
    given: tuple[tuple[End, dict[str, Any] | None], ...]  # Any: free-form storage
    given = (("input", input_storage), ("output", spec.storage.output))
    storage = [
        (end, label, item) for end, labels in given for label, item in (labels or {}).items() if isinstance(item, dict)
    ]
    # Ours to provide are the mounts of our labels, and those of plug-ins in the built-in runner.
    ends = [(end, item) for end, label, item in storage if is_our_runner or label in SCHEMA_LABELS]
    with_identity = storage if is_our_runner and spec.service_account_name else []
    endpoints = [endpoint for end, item in ends if (endpoint := _endpoint_of(end, item)) is not None]
    if model.credentials_ref is not None:
        endpoints.append(EndpointSecret(end="model", secret=model.credentials_ref.name))
    backoff_limits = (run.spec.backoff_limit, spec.backoff_limit, defaults.backoff_limit)
    seconds_kept = spec.ttl_seconds_after_finished
    asked = _asked_resources(config.spec.resources, run.spec.resources)
    limits: dict[str, float | None] = {}  # of the runner, by the names of its environment variables
    if is_our_runner and spec.limits is not None:
        sizes = spec.limits.to_manifest()
        limits = {f"INFERRUN_{name.upper()}_BYTES": int(amount(size)) for name, size in sizes.items()}
    if is_our_runner and requests is not None:
        limits |= {
            "INFERRUN_BATCH_ROWS": requests.max_batch_records,
            "INFERRUN_REQUEST_SECONDS": requests.target_seconds,
            "INFERRUN_CONCURRENCY": requests.concurrency,
            "INFERRUN_REQUEST_TIMEOUT": requests.timeout_seconds,
            "INFERRUN_HANDLER_TIMEOUT": requests.storage_timeout_seconds,
        }
    return Snapshot(
        image=spec.image or defaults.runner_image,
        is_our_runner=is_our_runner,
        image_pull_policy=spec.image_pull_policy,
        pull_secret=credentials.name if credentials else None,
        pull_secret_namespace=(credentials.namespace or "") if credentials else "",
        run_as_user=spec.run_as_user or (RUN_AS_USER if defaults.fixed_user else None),
        has_fixed_group=defaults.fixed_user,
        service_account=spec.service_account_name or ("" if is_our_runner else runner_account),
        token_audiences=_token_audiences(with_identity, model.token_audience),
        has_azure_identity=any(
            label == AZURE_LABEL and CREDENTIALS_KEY not in item for _, label, item in with_identity
        ),
        resources=_completed(asked, defaults),
        placement=spec.placement,
        tmp_size=asked["limits"].get("ephemeral-storage", defaults.runner_tmp_size),
        is_root_read_only=is_our_runner,
        endpoints=tuple(endpoints),
        header_secrets=_header_secrets_of(storage, model.headers or ()),
        claims=tuple(MountedClaim(end=end, name=str(item[CLAIM_KEY])) for end, item in ends if item.get(CLAIM_KEY)),
        labels=propagated_labels(run, allowed=defaults.propagated_labels),
        annotations=propagated_annotations(run, excluded=defaults.excluded_annotations),
        pending_timeout_seconds=run.spec.pending_timeout_seconds or 0,
        backoff_limit=next(one for one in backoff_limits if one is not None),
        max_disruptions=defaults.max_disruptions,
        deadline_margin_seconds=defaults.deadline_margin_seconds,
        auto_delete_policy=spec.auto_delete_policy or AutoDeletePolicy.NONE,
        auto_delete_delay_seconds=spec.delete_after_seconds,
        ttl_seconds_after_finished=defaults.job_ttl_seconds if seconds_kept is None else seconds_kept,
        krateo_post_limit_bytes=defaults.krateo_post_limit_bytes,
        limits={name: str(value) for name, value in limits.items() if value is not None},
        foreign_log_tail=defaults.foreign_log_tail,
        allowed_addresses=defaults.allowed_addresses,
        refused_addresses=defaults.refused_addresses,
        service=service_of(run, config, runner_image=defaults.runner_image),
        warm_up_limit=warm_up_limit,
        warm_up_image=defaults.runner_image if warm_up_limit else "",
        is_dry_run=bool(run.spec.dry_run),
        ca_bundle=MountedKey(config_map=bundle.config_map_ref.name, key=bundle.config_map_ref.key or CA_BUNDLE_KEY)
        if bundle is not None
        else None,
        system_prompt=MountedKey(config_map=system.name, key=system.key) if system is not None else None,
        shards=1 if run.spec.dry_run else run.spec.shards or spec.shards or 1,  # a dry run reads only the first records
    )


def _asked_resources(*given: ResourceRequirements | None) -> dict[str, dict[str, str]]:
    """Requests and limits; later ones replace both of the resources that they mention."""
    asked: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for new in (part.to_manifest() for part in given if part is not None):
        named = {*new.get("requests", ()), *new.get("limits", ())}
        for kind, before in asked.items():
            kept = {key: value for key, value in before.items() if key not in named}
            asked[kind] = kept | {key: str(value) for key, value in new.get(kind, {}).items()}
    return asked


def _completed(asked: dict[str, dict[str, str]], defaults: Defaults) -> dict[str, dict[str, str]]:
    """The requests and limits, completed by the defaults for resources that they do not mention.

    A request without a limit keeps the default limit if that is larger; a limit without a request is also the request, as in
    Kubernetes.
    """
    requests, limits = asked["requests"], asked["limits"]
    default_requests, default_limits = amounts_of(defaults.runner_requests), amounts_of(defaults.runner_limits)
    spared = {key: value for key, value in default_requests.items() if key not in requests and key not in limits}
    capped = {
        key: value
        for key, value in default_limits.items()
        if key not in limits and amount(value) >= amount(requests.get(key, "0"))
    }
    parts = {"requests": spared | requests, "limits": capped | limits}
    return {part: amounts for part, amounts in parts.items() if amounts}


def _endpoint_of(end: End, settings: dict[str, Any]) -> EndpointSecret | None:  # Any: free-form storage
    for keys in SECRET_KEYS:
        reference: Any = settings  # Any: free-form storage
        for key in keys:
            reference = reference.get(key) if isinstance(reference, dict) else None
        if isinstance(reference, dict) and isinstance(reference.get("name"), str):
            namespace = reference.get("namespace")
            named = namespace if isinstance(namespace, str) else ""
            return EndpointSecret(end=end, secret=reference["name"], named_namespace=named)
    return None


def _token_audiences(storage: Iterable[_Storage], model_audience: str | None) -> dict[SecretEnd, str]:
    found: dict[SecretEnd, str] = {}
    for end, label, settings in storage:
        identity = settings.get("workloadIdentity") if label == GCS_LABEL else None
        if isinstance(identity, dict):
            found[end] = identity["audience"]
    return found | ({"model": model_audience} if model_audience else {})


def _header_secrets_of(
    storage: Iterable[_Storage], headers: Iterable[connection.ModelHeader]
) -> tuple[HeaderSecret, ...]:
    found = [
        HeaderSecret(end="model", index=index, secret=reference.name, key=reference.key)
        for index, header in enumerate(headers)
        if (reference := header.value_from.secret_key_ref if header.value_from else None) is not None
    ]
    for end, label, settings in storage:
        call = settings.get("api") if label == KRATEO_LABEL else None
        sources = call.get("headersFrom") if isinstance(call, dict) else None
        for index, source in enumerate(sources if isinstance(sources, list) else ()):
            reference = source.get("secretKeyRef") if isinstance(source, dict) else None
            if isinstance(reference, dict) and reference.get("name") and reference.get("key"):
                secret, key = str(reference["name"]), str(reference["key"])
                found.append(HeaderSecret(end=end, index=index, secret=secret, key=key))
    return tuple(found)
