"""The worker's settings, from its environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Self

from inferrun.control.settings import CommonSettings, whole_number


@dataclass(frozen=True)
class WorkerSettings:
    """Read once, when the process starts."""

    common: CommonSettings

    runner_account: str
    """SA_RUNNER: service account of Pods with a custom image whose config names none; every config may name it. Empty (default):
    none, and no token."""

    front_door: tuple[str, ...]
    """FRONT_DOOR_NAMESPACES: comma-separated Kubernetes namespaces in which programs may start runs through Temporal; empty
    (default): the watched namespaces. Runs are executed only in namespaces that are watched as well."""

    defaults_folder: Path
    """INFERRUN_DEFAULTS: folder in which the ConfigMap with the operator's defaults is mounted."""

    follower_slots: int
    """FOLLOWER_SLOTS: number of Jobs followed at a time for workflows of earlier versions, default 200; other Jobs take no slot."""

    activity_slots: int
    """ACTIVITY_SLOTS: number of short activities at a time on each task queue: the worker's own and one per lane; default 50."""

    cached_workflows: int
    """CACHED_WORKFLOWS: number of workflows kept in memory, default 1000; others are replayed from their history when needed."""

    shutdown_seconds: timedelta
    """SHUTDOWN_SECONDS: seconds that running activities get after SIGTERM, default 10."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """The settings in `environment`; raises ValueError with the name of an invalid setting."""
        return cls(
            common=CommonSettings.read(environment),
            runner_account=environment.get("SA_RUNNER", ""),
            front_door=tuple(
                name.strip() for name in environment.get("FRONT_DOOR_NAMESPACES", "").split(",") if name.strip()
            ),
            defaults_folder=Path(environment.get("INFERRUN_DEFAULTS", "/etc/inferrun/config")),
            follower_slots=whole_number(environment, "FOLLOWER_SLOTS", default=200, least=1),
            activity_slots=whole_number(environment, "ACTIVITY_SLOTS", default=50, least=1),
            cached_workflows=whole_number(environment, "CACHED_WORKFLOWS", default=1000),
            shutdown_seconds=timedelta(seconds=whole_number(environment, "SHUTDOWN_SECONDS", default=10)),
        )

    @property
    def served_namespaces(self) -> frozenset[str] | None:
        """The namespaces in which programs may start runs, None for all."""
        watched = self.common.watched
        if not self.front_door:
            return frozenset(watched.names) if watched.are_listed else None
        return frozenset(name for name in self.front_door if name in watched)
