"""The settings that shim and worker share, read from environment variables."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from inferrun.submission import DEFAULT_TASK_QUEUE


@dataclass(frozen=True)
class CommonSettings:
    """The settings that shim and worker share. An invalid value raises ValueError with the name of its variable."""

    watch_namespace: str | None
    """WATCH_NAMESPACE: the only namespace that is watched; empty: all namespaces."""

    task_queue: str
    """INFERRUN_TASK_QUEUE: Temporal task queue; default `inferrun`. Two installations in one Temporal namespace need two."""

    release: str
    """INFERRUN_RELEASE: name of this installation within its cluster; default `inferrun`."""

    ui_url: str
    """TEMPORAL_UI_URL: address of the Temporal UI, used in links; empty: no links."""

    identity: str
    """POD_NAME, or the host name: identifies the process among several."""

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
            watch_namespace=environment.get("WATCH_NAMESPACE") or None,
            task_queue=environment.get("INFERRUN_TASK_QUEUE") or DEFAULT_TASK_QUEUE,
            release=environment.get("INFERRUN_RELEASE") or "inferrun",
            ui_url=environment.get("TEMPORAL_UI_URL", ""),
            identity=environment.get("POD_NAME") or environment.get("HOSTNAME") or "local",
            kubeconfig=Path(kubeconfig) if kubeconfig else None,
            health_port=whole_number(environment, "HEALTH_PORT", default=8080),
            log_level=environment.get("LOG_LEVEL") or "INFO",
        )


def whole_number(environment: Mapping[str, str], name: str, *, default: int, least: int = 0) -> int:
    """The whole number in an environment variable. Raises ValueError with the variable's name."""
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ValueError(f"{name} is {text!r}; must be a whole number of at least {least}")
    return int(text)
