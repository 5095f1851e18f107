"""The settings that shim and worker share, read from their environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from inferrun.submission import DEFAULT_TASK_QUEUE


@dataclass(frozen=True)
class CommonSettings:
    """The settings that shim and worker share, from their environment. Wrong values raise ValueError with the name."""

    watch_namespace: str | None
    """WATCH_NAMESPACE: the one namespace that is served; empty: all."""

    task_queue: str
    """INFERRUN_TASK_QUEUE: Temporal's task queue, `inferrun`; two installations on one Temporal need two."""

    release: str
    """INFERRUN_RELEASE: the name of this installation in its cluster, `inferrun`."""

    ui_url: str
    """TEMPORAL_UI_URL: the Temporal UI's address, for links; empty: no links."""

    identity: str
    """POD_NAME, or the host's name: which of several processes this is."""

    kubeconfig: Path | None
    """INFERRUN_KUBECONFIG: a kubeconfig for a process outside of the cluster. KUBECONFIG itself is never read: a file
    that lies around must not decide which cluster is written to."""

    health_port: int
    """HEALTH_PORT: where /livez and /readyz are served, 8080; 0: any free port."""

    log_level: str
    """LOG_LEVEL: INFO."""

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
    """A whole number of the environment; raises ValueError that names it."""
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ValueError(f"{name} is {text!r}; a whole number of at least {least} is allowed")
    return int(text)
