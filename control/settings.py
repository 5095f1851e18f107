"""The settings of shim and worker, read from environment variables when a process starts.

WATCH_NAMESPACE, POLLING_INTERVAL, MAX_RECONCILE_RATE and SA_RUNNER are named as in the Krateo
controller.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from inferrun.kube.namespaces import Namespaces
from inferrun.submission import DEFAULT_TASK_QUEUE

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)


@dataclass(frozen=True)
class ControlSettings:
    """An invalid value raises ValueError with the name of its variable."""

    watched: Namespaces
    """WATCH_NAMESPACE: the namespaces that are watched, separated by commas, at most 30; empty: all
    namespaces."""

    front_door: tuple[str, ...]
    """FRONT_DOOR_NAMESPACES: comma-separated Kubernetes namespaces in which programs may start runs
    through Temporal; empty (default): the watched namespaces. Runs are executed only in namespaces
    that are watched as well."""

    runner_account: str
    """SA_RUNNER: service account of Pods with a custom image whose config names none; every config
    may name it. Empty (default): none, and no token."""

    resync_seconds: int
    """POLLING_INTERVAL: interval at which all unfinished runs are reconciled; seconds or a duration
    such as 1m; default 300."""

    workers: int
    """MAX_RECONCILE_RATE: number of runs that are reconciled concurrently; default 10."""

    task_queue: str
    """INFERRUN_TASK_QUEUE: Temporal task queue; default `inferrun`. Two installations in one
    Temporal namespace need two."""

    ui_url: str
    """TEMPORAL_UI_URL: address of the Temporal UI, used in links; empty: no links."""

    codec_keys: Path | None
    """INFERRUN_CODEC_KEYS: folder with the keys with which payloads in Temporal are encrypted;
    empty: they are not."""

    release: str
    """INFERRUN_RELEASE: name of this installation within its cluster; default `inferrun`."""

    identity: str
    """POD_NAME, or the host name: identifies the process among several."""

    namespace: str
    """POD_NAMESPACE: namespace of the process, which contains the Lease for leader election;
    default `default`."""

    defaults_folder: Path
    """INFERRUN_DEFAULTS: directory where the ConfigMap with the operator's defaults is mounted."""

    run_network_policy: str
    """RUN_NETWORK_POLICY: NetworkPolicy in the namespace of the process that is copied into the
    namespaces of runs before their Pods start; default: none. Only the worker uses it."""

    kubeconfig: Path | None
    """INFERRUN_KUBECONFIG: kubeconfig for a process outside the cluster. KUBECONFIG is ignored on
    purpose: a file that happens to exist must not decide which cluster is written to."""

    health_port: int
    """HEALTH_PORT: port that serves /livez, /readyz and /metrics; default 8080; 0: any free
    port."""

    traces_endpoint: str
    """OTEL_EXPORTER_OTLP_ENDPOINT: address of the collector that gets traces over HTTP, such as
    http://collector:4318; default: no traces. Further variables of OpenTelemetry's exporter apply,
    such as OTEL_EXPORTER_OTLP_HEADERS."""

    traces_ratio: float
    """OTEL_TRACES_SAMPLER_ARG: share of the runs that are traced, from 0 to 1; default 1. The same
    for shim and worker."""

    temporal_metrics_port: int
    """TEMPORAL_METRICS_PORT: port on which the Temporal SDK serves its metrics; 0 (default):
    none."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """The settings in `environment`."""
        kubeconfig = environment.get("INFERRUN_KUBECONFIG")
        try:
            watched = Namespaces.parse(environment.get("WATCH_NAMESPACE", ""))
        except ValueError as error:
            raise ValueError(f"WATCH_NAMESPACE: {error}") from error
        return cls(
            watched=watched,
            front_door=tuple(
                name.strip()
                for name in environment.get("FRONT_DOOR_NAMESPACES", "").split(",")
                if name.strip()
            ),
            runner_account=environment.get("SA_RUNNER", ""),
            resync_seconds=_seconds(environment.get("POLLING_INTERVAL", "").strip() or "300"),
            workers=_whole_number(environment, "MAX_RECONCILE_RATE", default=10, least=1),
            task_queue=environment.get("INFERRUN_TASK_QUEUE") or DEFAULT_TASK_QUEUE,
            ui_url=environment.get("TEMPORAL_UI_URL", ""),
            codec_keys=Path(keys) if (keys := environment.get("INFERRUN_CODEC_KEYS")) else None,
            release=environment.get("INFERRUN_RELEASE") or "inferrun",
            identity=environment.get("POD_NAME") or environment.get("HOSTNAME") or "local",
            namespace=environment.get("POD_NAMESPACE") or "default",
            defaults_folder=Path(environment.get("INFERRUN_DEFAULTS", "/etc/inferrun/config")),
            run_network_policy=environment.get("RUN_NETWORK_POLICY", ""),
            kubeconfig=Path(kubeconfig) if kubeconfig else None,
            health_port=_whole_number(environment, "HEALTH_PORT", default=8080),
            traces_endpoint=environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip(),
            traces_ratio=_share(environment, "OTEL_TRACES_SAMPLER_ARG"),
            temporal_metrics_port=_whole_number(environment, "TEMPORAL_METRICS_PORT", default=0),
        )

    @property
    def served_namespaces(self) -> frozenset[str] | None:
        """The namespaces in which programs may start runs, None for all."""
        if not self.front_door:
            return frozenset(self.watched.names) or None
        return frozenset(name for name in self.front_door if name in self.watched)


def _whole_number(
    environment: Mapping[str, str], name: str, *, default: int, least: int = 0
) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ValueError(f"{name} is {text!r}; must be a whole number of at least {least}")
    return int(text)


def _share(environment: Mapping[str, str], name: str) -> float:
    text = environment.get(name, "").strip() or "1"
    try:
        share = float(text)
    except ValueError:
        share = -1
    if not 0 <= share <= 1:
        raise ValueError(f"{name} is {text!r}; must be a number from 0 to 1")
    return share


def _seconds(text: str) -> int:
    found = _DURATION.fullmatch(f"{text}s" if text.isdigit() else text)
    hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    if not hours and not minutes and not seconds:
        raise ValueError(
            f"POLLING_INTERVAL is {text!r}; must be a whole number of seconds such as 300, or a duration such as 5m"
        )
    return hours * 3600 + minutes * 60 + seconds
