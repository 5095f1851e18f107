"""The operator's defaults and limits for runs: the keys of the ConfigMap `inferrun-config`, mounted
as a directory.

Each key is a file. An invalid value never stops a process: the last valid value remains in effect
and the problem is reported. Pure, apart from `read_folder`.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationError

from inferrun.addresses import parse_targets
from inferrun.camel_case import CamelCase

DEFAULT_RUNNER_IMAGE = "localhost/inferrun/runner:dev"


def _split(value: object) -> object:
    return (
        tuple(part.strip() for part in value.split(",") if part.strip())
        if isinstance(value, str)
        else value
    )


def _targets(values: tuple[str, ...]) -> tuple[str, ...]:
    parse_targets(",".join(values))
    return values


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
Addresses = Annotated[Names, AfterValidator(_targets)]

_QUANTITY = r"[0-9]+(\.[0-9]+)?(m|k|[KMGTP]i?)?"
_RESOURCE = r"[a-z0-9]([a-z0-9./-]*[a-z0-9])?"
Amounts = Annotated[
    tuple[Annotated[str, StringConstraints(pattern=f"^{_RESOURCE}={_QUANTITY}$")], ...],
    BeforeValidator(_split),
]
"""Amounts of resources, such as `cpu=50m,memory=128Mi`."""

_LABEL = r"[-A-Za-z0-9_./*]+=[-A-Za-z0-9_.*]*"
Labels = Annotated[
    tuple[Annotated[str, StringConstraints(pattern=f"^{_LABEL}$")], ...], BeforeValidator(_split)
]
Taints = Annotated[
    tuple[Annotated[str, StringConstraints(pattern=f"^{_LABEL}:[A-Za-z*]+$")], ...],
    BeforeValidator(_split),
]
"""Patterns for labels and taints, written as kubectl does, in which `*` matches any characters."""


def amounts_of(texts: Iterable[str]) -> dict[str, str]:
    """The amounts by resource."""
    return dict(text.split("=", 1) for text in texts)


def matches(value: str, patterns: Iterable[str]) -> bool:
    """Whether the value matches one of these patterns of a setting, in which only `*` is
    special."""
    return any(fnmatchcase(value, one.replace("[", "[[]").replace("?", "[?]")) for one in patterns)


class Defaults(CamelCase):
    """Values for runs that set them neither in their spec nor in their config, and limits for all
    runs."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Level of the log of shim and worker: `debug` (each step of each run), `info`, `warning` or
    `error`. Applies to all runs at once."""

    runner_image: str = Field(default=DEFAULT_RUNNER_IMAGE, min_length=1)
    """Image of the built-in runner, for configs without an image."""

    backoff_limit: int = Field(default=2, ge=0, le=100)
    """Maximum number of retries of a failed run; 2 means at most three attempts."""

    job_ttl_seconds: int = Field(default=86_400, ge=0)
    """Seconds for which a finished run keeps its Job and Pod and with them its logs; one day."""

    deadline_margin_seconds: int = Field(default=600, ge=1)
    """Seconds after a run's deadline at which the kubelet terminates its Pod if nothing else has.
    It counts from the time at which the kubelet accepts the Pod, so a short margin would terminate
    Pods that wait for an image or a Secret."""

    warm_up_seconds: int = Field(default=1800, ge=1)
    """Maximum number of seconds for which the Pod of a run waits until a model of KServe answers,
    unless its config sets kserve.warmUpSeconds. Downloading and loading a large language model
    takes many minutes."""

    max_disruptions: int = Field(default=20, ge=0)
    """Maximum number of evicted, preempted, deleted and rejected Pods and of lost nodes tolerated
    per run."""

    node_lost_seconds: int = Field(default=300, ge=10)
    """Seconds after which a run no longer waits for a node that does not respond, and continues in
    another Pod. The Pod on that node is deleted by force, so the value should exceed the time that
    a node needs to restart."""

    runner_requests: Amounts = ("cpu=50m", "memory=128Mi", "ephemeral-storage=100Mi")
    """Resources that the Pod of a run requests, unless its config sets the request or the limit of
    that resource."""

    runner_limits: Amounts = ("memory=2Gi", "ephemeral-storage=24Gi")
    """Resource limits of the Pod of a run, unless its config sets the limit of that resource or
    requests more. No CPU limit: requests share the CPU fairly."""

    runner_tmp_size: str = Field(default="20Gi", pattern=f"^({_QUANTITY})?$")
    """Size limit of the folder /tmp of the Pod of a run, unless its config or the run sets a limit
    of ephemeral-storage, which then applies; the Pod is evicted if it stores more. The built-in
    runner spools up to 8 GiB for its input and the same for its output. Empty: no limit."""

    max_active_runs_per_namespace: int = Field(default=0, ge=0)
    """Maximum number of runs of a namespace that are started and not finished; further runs wait
    with reason TooManyActiveRuns and start automatically. 0: no limit."""

    min_schedule_interval_seconds: int = Field(default=60, ge=60, le=86_400)
    """Minimum number of seconds between two runs of a schedule; a schedule that fires more often is
    rejected. Cron's own minimum is 60."""

    allowed_service_accounts: Names = ()
    """Service accounts that a config may set as serviceAccountName. Empty by default, because an
    account grants permissions."""

    allowed_images: Names = ()
    """Images that a config may set as image, as patterns in which `*` matches any characters.
    Empty: every image. They are compared with the image as it is written in the config; end a
    pattern with a separator, such as `example.com/team/*`."""

    allowed_node_labels: Labels = ()
    """Labels of nodes that a config may use in nodeSelector, affinity and
    topologySpreadConstraints, as `key=value`, in which `*` matches any characters:
    `topology.kubernetes.io/zone=*` allows each condition on the zone. Empty: none."""

    allowed_tolerations: Taints = ()
    """Tolerations that a config may set, as `key=value:effect`, in which `*` matches any
    characters. A toleration with the operator Exists has the value `*`, one without an effect the
    effect `*`. Empty by default, because taints reserve nodes."""

    allowed_priority_classes: Names = ()
    """Priority classes that a config may set. Empty by default, because Pods of a higher priority
    evict those of others."""

    allowed_runtime_classes: Names = ()
    """Runtime classes that a config may set. Empty by default, because they differ in how they
    isolate Pods."""

    fixed_user: bool = True
    """Whether Pods of runs get the user and group 65532 unless the config sets runAsUser. Turn it
    off on OpenShift, whose restricted SCC assigns each namespace its own range of users."""

    allow_cross_namespace_config: bool = False
    """Whether every run may use configs in other namespaces. Off by default, because namespaces
    separate users: the users of the other namespace grant it, in the ConfigMap inferrun-grants."""

    foreign_log_tail: bool = False
    """Whether the last log lines of a custom image may be shown in a status. Off by default,
    because they may contain data."""

    krateo_post_limit_bytes: int = Field(default=16 * 1024 * 1024, ge=1024)
    """Maximum size in bytes of the predictions in one POST request to a `krateo` data handler."""

    propagated_labels: Names = ("kueue.x-k8s.io/queue-name",)
    """Keys of the labels of a run that its Jobs and Pods get, and that the runs of a schedule
    inherit from it. Only the name of a queue by default: other labels of queueing systems, such as
    a priority, are not for users to choose."""

    excluded_annotations: Names = (
        "*kubernetes.io/*",
        "*k8s.io/*",
        "*.argoproj.io/*",
        "*.fluxcd.io/*",
        "meta.helm.sh/*",
    )
    """Annotations of a run that its Jobs and Pods do not get, and that the runs of a schedule do
    not inherit, as patterns in which `*` matches any characters; `*` alone excludes all. All others
    are passed on, in the order of their keys up to 2 KiB. Excluded by default are those that mean
    something to Kubernetes and its schedulers, or to a tool that manages the run. Those of this
    product are always excluded."""

    allowed_addresses: Addresses = ()
    """Addresses and networks, each with an optional port, to which the built-in runner may connect
    although it refuses them by default: loopback, link-local and metadata addresses, Temporal, the
    API server, and the ports of control planes."""

    refused_addresses: Addresses = ()
    """Addresses, networks and host names, each with an optional port, to which the built-in runner
    must not connect, in addition to those that it refuses by default. The worker adds the addresses
    at which it reaches Temporal and the API server."""


def parse_defaults(
    values: Mapping[str, str], *, last: Defaults
) -> tuple[Defaults, tuple[str, ...]]:
    """The defaults in `values`, and one line for each invalid value, which keeps its value from
    `last`."""
    good: dict[str, Any] = {}  # Any: validated below, one key at a time
    problems = []
    by_alias = {field.alias or name: name for name, field in Defaults.model_fields.items()}
    for key, value in values.items():
        if key not in by_alias:
            problems.append(f"{key}: unknown setting; allowed are {', '.join(sorted(by_alias))}")
            continue
        try:
            Defaults.model_validate({key: value.strip()})
            good[key] = value.strip()
        except ValidationError as error:
            problems.append(f"{key}: {value.strip()[:64]!r}: {error.errors()[0]['msg']}")
            good[key] = getattr(last, by_alias[key])
    return Defaults.model_validate(good), tuple(problems)


def read_folder(folder: Path) -> dict[str, str]:
    """The files of a mounted ConfigMap by name; empty if the directory does not exist."""
    if not folder.is_dir():
        return {}
    files = (
        path
        for path in sorted(folder.iterdir())
        if path.is_file() and not path.name.startswith(".")
    )
    return {path.name: path.read_text(encoding="utf-8", errors="replace") for path in files}
