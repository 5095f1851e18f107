"""The settings that shim and worker share, read from environment variables."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from inferrun.kube.namespaces import Namespaces
from inferrun.submission import DEFAULT_TASK_QUEUE


@dataclass(frozen=True)
class CommonSettings:
    """The settings that shim and worker share. An invalid value raises ValueError with the name of its variable."""

    watched: Namespaces
    """WATCH_NAMESPACE: the namespaces that are watched, separated by commas, at most 30; empty: all namespaces."""

    task_queue: str
    """INFERRUN_TASK_QUEUE: Temporal task queue; default `inferrun`. Two installations in one Temporal namespace need two."""

    release: str
    """INFERRUN_RELEASE: name of this installation within its cluster; default `inferrun`."""

    ui_url: str
    """TEMPORAL_UI_URL: address of the Temporal UI, used in links; empty: no links."""

    identity: str
    """POD_NAME, or the host name: identifies the process among several."""

    namespace: str
    """POD_NAMESPACE: namespace of the process, which contains the Lease for leader election; default `default`."""

    cluster_id: str
    """INFERRUN_CLUSTER_ID: identifies the cluster in the installation's id; empty: found when the program starts."""

    codec_keys: Path | None
    """INFERRUN_CODEC_KEYS: folder with the keys with which payloads in Temporal are encrypted; empty: they are not."""

    kubeconfig: Path | None
    """INFERRUN_KUBECONFIG: kubeconfig for a process outside the cluster. KUBECONFIG is ignored on purpose: a file that
    happens to exist must not decide which cluster is written to."""

    health_port: int
    """HEALTH_PORT: port that serves /livez and /readyz; default 8080; 0: any free port."""

    log_level: str
    """LOG_LEVEL: default INFO."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """The settings in `environment`."""
        kubeconfig = environment.get("INFERRUN_KUBECONFIG")
        return cls(
            watched=_watched(environment.get("WATCH_NAMESPACE", "")),
            task_queue=environment.get("INFERRUN_TASK_QUEUE") or DEFAULT_TASK_QUEUE,
            release=environment.get("INFERRUN_RELEASE") or "inferrun",
            ui_url=environment.get("TEMPORAL_UI_URL", ""),
            identity=environment.get("POD_NAME") or environment.get("HOSTNAME") or "local",
            namespace=environment.get("POD_NAMESPACE") or "default",
            cluster_id=environment.get("INFERRUN_CLUSTER_ID", ""),
            codec_keys=Path(keys) if (keys := environment.get("INFERRUN_CODEC_KEYS")) else None,
            kubeconfig=Path(kubeconfig) if kubeconfig else None,
            health_port=whole_number(environment, "HEALTH_PORT", default=8080),
            log_level=environment.get("LOG_LEVEL") or "INFO",
        )


def _watched(text: str) -> Namespaces:
    try:
        return Namespaces.parse(text)
    except ValueError as error:
        raise ValueError(f"WATCH_NAMESPACE: {error}") from error


def whole_number(environment: Mapping[str, str], name: str, *, default: int, least: int = 0) -> int:
    """The whole number in an environment variable. Raises ValueError with the variable's name."""
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ValueError(f"{name} is {text!r}; must be a whole number of at least {least}")
    return int(text)
