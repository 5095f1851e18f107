"""The shim's settings, read from environment variables.

POLLING_INTERVAL, MAX_RECONCILE_RATE and SA_RUNNER are named as in the Krateo controller.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from inferrun.control.settings import CommonSettings, whole_number

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)


@dataclass(frozen=True)
class ShimSettings:
    """Read once, at startup."""

    common: CommonSettings

    resync_seconds: int
    """POLLING_INTERVAL: interval at which all unfinished runs are reconciled; seconds or a duration such as 1m; default 300."""

    workers: int
    """MAX_RECONCILE_RATE: number of runs that are reconciled concurrently; default 10."""

    defaults_folder: Path
    """INFERRUN_DEFAULTS: directory where the ConfigMap with the operator's defaults is mounted."""

    runner_account: str
    """SA_RUNNER: service account of Pods with a custom image whose config names none; every config may name it. Empty (default):
    none, and no token."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """The settings in `environment`. Raises ValueError with the name of an invalid variable."""
        return cls(
            common=CommonSettings.read(environment),
            resync_seconds=_seconds(environment.get("POLLING_INTERVAL", "").strip() or "300"),
            workers=whole_number(environment, "MAX_RECONCILE_RATE", default=10, least=1),
            defaults_folder=Path(environment.get("INFERRUN_DEFAULTS", "/etc/inferrun/config")),
            runner_account=environment.get("SA_RUNNER", ""),
        )


def _seconds(text: str) -> int:
    found = _DURATION.fullmatch(f"{text}s" if text.isdigit() else text)
    hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    if not hours and not minutes and not seconds:
        raise ValueError(
            f"POLLING_INTERVAL is {text!r}; must be a whole number of seconds such as 300, or a duration such as 5m"
        )
    return hours * 3600 + minutes * 60 + seconds
