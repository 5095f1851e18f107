"""The worker's settings, from its environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Self

from inferrun.control.settings import CommonSettings, whole_number


@dataclass(frozen=True)
class WorkerSettings:
    """Read once, at the start."""

    common: CommonSettings

    runner_account: str
    """SA_RUNNER: the service account of runners' Pods, with its token; empty: none, and no token."""

    defaults_folder: Path
    """INFERRUN_DEFAULTS: where the ConfigMap with the operator's defaults is mounted."""

    follower_slots: int
    """FOLLOWER_SLOTS: Jobs that one worker follows at once, 200; more wait for a free slot or another worker."""

    activity_slots: int
    """ACTIVITY_SLOTS: short activities at once, 50: each is a few requests to the API server."""

    cached_workflows: int
    """CACHED_WORKFLOWS: workflows kept in memory, 1000; one that is not is replayed from its history."""

    shutdown_seconds: timedelta
    """SHUTDOWN_SECONDS: how long activities may go on after SIGTERM, 10 s; followers are handed over at once."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """The settings in `environment`; raises ValueError that names what is wrong."""
        return cls(
            common=CommonSettings.read(environment),
            runner_account=environment.get("SA_RUNNER", ""),
            defaults_folder=Path(environment.get("INFERRUN_DEFAULTS", "/etc/inferrun/config")),
            follower_slots=whole_number(environment, "FOLLOWER_SLOTS", default=200, least=1),
            activity_slots=whole_number(environment, "ACTIVITY_SLOTS", default=50, least=1),
            cached_workflows=whole_number(environment, "CACHED_WORKFLOWS", default=1000),
            shutdown_seconds=timedelta(seconds=whole_number(environment, "SHUTDOWN_SECONDS", default=10)),
        )
