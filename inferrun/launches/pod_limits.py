"""What a run's Pods may use: resources, requests at a time, time, addresses. Pure."""

from pydantic import Field

from inferrun.contract import ModelService
from inferrun.fields.quantities import amount
from inferrun.launches.verdict import Frozen
from inferrun.plugins.limits import MAX_CONCURRENCY, Limits
from inferrun.resources import InferenceConfig, InferenceRun
from inferrun.resources.config import ResourceRequirements
from inferrun.run_defaults import Defaults, amounts_of

MAX_MARGIN = 86_400
"""Maximum number of seconds by which a Pod that was not started in time may outlive its run's
deadline."""

BELOW_THE_LIMIT = 0.9
"""Share of the model server's time limit after which the runner gives a request up, so that it is
the runner that decides."""

Resources = dict[str, dict[str, str]]
"""Requests and limits: amounts by resource."""


class PodLimits(Frozen):
    """The limits of a run's Pods."""

    resources: Resources = Field(default_factory=dict)
    tmp_size: str = ""
    deadline_margin_seconds: int
    krateo_post_limit_bytes: int
    limits: dict[str, str] = Field(default_factory=dict)
    """Limits of the built-in runner, by the names of its environment variables."""

    allowed_addresses: tuple[str, ...] = ()
    refused_addresses: tuple[str, ...] = ()
    warm_up_limit: int = 0
    """0: the Pod has no init container."""

    warm_up_image: str = ""


def limits_of(
    run: InferenceRun, config: InferenceConfig, *, defaults: Defaults, is_our_runner: bool
) -> PodLimits:
    """The limits of a run's Pods. By default only a model of KServe is waited for."""
    spec, model, requests = config.spec, config.spec.model, config.spec.requests
    warm_up_limit = model.warm_up_seconds
    if warm_up_limit is None:
        warm_up_limit = defaults.warm_up_seconds if model.service_ref is not None else 0
    asked = _asked_resources(spec.resources, run.spec.resources)
    limits: dict[str, float | str | None] = {}
    if is_our_runner:
        sizes = spec.limits.to_manifest() if spec.limits is not None else {}
        limits = {
            f"INFERRUN_{name.upper()}_BYTES": int(amount(size)) for name, size in sizes.items()
        }
        if requests is not None:
            limits |= {
                "INFERRUN_BATCH_ROWS": requests.max_batch_records,
                "INFERRUN_REQUEST_SECONDS": requests.target_seconds,
                "INFERRUN_CONCURRENCY": requests.concurrency,
                "INFERRUN_REQUEST_TIMEOUT": requests.timeout_seconds,
                "INFERRUN_DUPLICATES": requests.duplicates,
                "INFERRUN_HANDLER_TIMEOUT": requests.storage_timeout_seconds,
            }
    return PodLimits(
        resources=_completed(asked, defaults),
        tmp_size=asked["limits"].get("ephemeral-storage", defaults.runner_tmp_size),
        deadline_margin_seconds=defaults.deadline_margin_seconds,
        krateo_post_limit_bytes=defaults.krateo_post_limit_bytes,
        limits={name: str(value) for name, value in limits.items() if value is not None},
        allowed_addresses=defaults.allowed_addresses,
        refused_addresses=defaults.refused_addresses,
        warm_up_limit=warm_up_limit,
        warm_up_image=defaults.runner_image if warm_up_limit else "",
    )


def _asked_resources(*given: ResourceRequirements | None) -> Resources:
    """Requests and limits; later ones replace both of the resources that they mention."""
    asked: Resources = {"requests": {}, "limits": {}}
    for new in (part.to_manifest() for part in given if part is not None):
        named = {*new.get("requests", ()), *new.get("limits", ())}
        for kind, before in asked.items():
            kept = {key: value for key, value in before.items() if key not in named}
            asked[kind] = kept | {key: str(value) for key, value in new.get(kind, {}).items()}
    return asked


def _completed(asked: Resources, defaults: Defaults) -> Resources:
    """The requests and limits, completed by the defaults for resources that they do not mention.

    A request without a limit keeps the default limit if that is larger; a limit without a request
    is also the request, as in Kubernetes.
    """
    requests, limits = asked["requests"], asked["limits"]
    default_requests = amounts_of(defaults.runner_requests)
    default_limits = amounts_of(defaults.runner_limits)
    spared = {
        key: value
        for key, value in default_requests.items()
        if key not in requests and key not in limits
    }
    capped = {
        key: value
        for key, value in default_limits.items()
        if key not in limits and amount(value) >= amount(requests.get(key, "0"))
    }
    parts = {"requests": spared | requests, "limits": capped | limits}
    return {part: amounts for part, amounts in parts.items() if amounts}


def resources_of(limits: PodLimits, *kinds: str) -> Resources:
    """The requests and limits of these resources alone."""
    kept = {
        part: {key: value for key, value in amounts.items() if key in kinds}
        for part, amounts in limits.resources.items()
    }
    return {part: amounts for part, amounts in kept.items() if amounts}


def deadline_margin(limits: PodLimits, *, waits: int) -> int:
    """Seconds that a Pod may live longer than its launch may run, because the limit counts its wait
    as well.

    Each launch that ended waiting doubles it, so that a wait of days costs a launch per day and not
    one every ten minutes.
    """
    margin = limits.deadline_margin_seconds
    doubled: int = margin * 2 ** min(waits, 30)
    return min(doubled, max(margin, MAX_MARGIN))


def address_variables(limits: PodLimits) -> dict[str, str]:
    """The addresses with which our programs may speak, by environment variable; without empty
    lists."""
    lists = {
        "INFERRUN_ALLOWED_ADDRESSES": limits.allowed_addresses,
        "INFERRUN_REFUSED_ADDRESSES": limits.refused_addresses,
    }
    return {name: ",".join(addresses) for name, addresses in lists.items() if addresses}


def runner_variables(limits: PodLimits, *, service: ModelService | None) -> dict[str, str]:
    """The limits of the built-in runner, by environment variable. Those that the config sets keep
    their value, except for a timeout that is longer than that of KServe's object: a request that
    the server cuts off has cost a replica that time.
    """
    found = dict(limits.limits)
    if service is not None:
        # The runner begins with as many requests as the replicas accept at a time, and finds out
        # whether more are of use.
        start = (
            1
            if "INFERRUN_CONCURRENCY" in found
            else min(max(1, service.concurrency), MAX_CONCURRENCY)
        )
        found["INFERRUN_START_CONCURRENCY"] = str(start)
        wanted = float(found.get("INFERRUN_REQUEST_TIMEOUT", Limits().request_timeout))
        allowed = max(1.0, service.request_seconds * BELOW_THE_LIMIT)
        if service.request_seconds and wanted > allowed:
            found["INFERRUN_REQUEST_TIMEOUT"] = f"{allowed:g}"
    return found
