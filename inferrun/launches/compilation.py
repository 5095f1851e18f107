"""Compiles an InferenceRun, its InferenceConfig and the operator's defaults to a contract and a
snapshot. Pure."""

from dataclasses import replace

from inferrun import contract as contracts
from inferrun.contract import MAX_BYTES, Contract, InputRun, Model, Request, Tensors, dump_contract
from inferrun.fields.problems import describe
from inferrun.kserve import ModelAddress
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.retried_run import check_storage, retried_run
from inferrun.launches.run_texts import CONTRACT_KEY, hash_of
from inferrun.launches.snapshot import CompiledRun, WantedService, snapshot_of
from inferrun.names import LABEL_LIMIT, job_base_name
from inferrun.reasons import Reason
from inferrun.resources import InferenceConfig, InferenceRun
from inferrun.resources.config import JoinSource
from inferrun.resources.resolution import Resolved, resolve
from inferrun.resources.sharding import shard_obstacle
from inferrun.run_defaults import Defaults
from inferrun.timestamps import rfc3339

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
    """Contract and snapshot of a run; `address` is where the model is, if the config refers to an
    object that serves it, `earlier` is the run that this one retries, and `input_run` the one whose
    output is the input.

    `runner_account` is the installation's SA_RUNNER, empty for none; only custom images get it.
    Raises LaunchBlocked for what the image cannot do, for shards that are impossible, for values
    that the config does not allow, for a run that cannot be retried, and if the result is too
    large.
    """
    base = job_base_name(run.metadata.name, run.metadata.uid)
    input_storage = input_run.output if input_run is not None else config.spec.storage.input
    snapshot = snapshot_of(
        run, config, defaults=defaults, runner_account=runner_account, input_storage=input_storage
    )
    asked = {"dryRun": "true" if run.spec.dry_run else "", "retryOf": run.spec.retry_of or ""}
    for field, value in asked.items():
        # another image would ignore it, and store predictions
        if value and not snapshot.is_our_runner:
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
        raise LaunchBlocked(
            Reason.INVALID_SPEC,
            f'spec.shards is "{snapshot.shards}"; {obstacle}',
            is_retryable=False,
        )
    resolved = resolve(run, config, is_our_runner=snapshot.is_our_runner)
    if resolved.problems:
        raise LaunchBlocked(Reason.INVALID_SPEC, describe(resolved.problems), is_retryable=False)
    contract = _contract_of(run, config, resolved, base=base).model_copy(
        update={"input_run": input_run}
    )
    if earlier is not None:
        contract = contract.model_copy(update={"retry_of": retried_run(run, earlier, config)})
        check_storage(run, earlier, contract)
    if address is not None and snapshot.service is not None:
        contract = contract.model_copy(
            update={"kserve": _model_at(address, contract.kserve, service=snapshot.service)}
        )
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
    contract_size = len(compiled.contract_json.encode())
    snapshot_size = len(compiled.snapshot_json.encode())
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


def _contract_of(
    run: InferenceRun, config: InferenceConfig, resolved: Resolved, *, base: str
) -> Contract:
    uid, schedule, spec = run.metadata.uid, run.schedule_owner, config.spec
    thresholds, span = (run.spec.error_threshold, spec.error_threshold), run.spec.interval
    return Contract(
        job_id=schedule.uid if schedule is not None else uid,
        job_name=base,
        run_id=uid,
        kserve=Model.model_validate(spec.model.to_manifest()),
        input=resolved.input,
        output=resolved.output,
        parameters=resolved.parameters,
        interval=contracts.DataInterval(start=rfc3339(span.start), end=rfc3339(span.end))
        if span is not None
        else None,
        error_threshold=next((str(one) for one in thresholds if one is not None), ""),
        canary_records=run.spec.canary_records or spec.canary_records or 0,
        request=Request.model_validate(spec.request.to_manifest()) if spec.request else None,
        tensors=Tensors.model_validate(spec.tensors.to_manifest()) if spec.tensors else Tensors(),
        join_source="Input" if spec.join_source is JoinSource.INPUT else "",
        pass_through_columns=spec.pass_through_columns or (),
        dry_run=bool(run.spec.dry_run),
    )
