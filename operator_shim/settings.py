"""The shim's settings, from its environment; names and meaning of the first three are the Krateo controller's."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from inferrun.control.settings import CommonSettings, whole_number

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)


@dataclass(frozen=True)
class ShimSettings:
    """Read once, at the start."""

    common: CommonSettings

    resync_seconds: int
    """POLLING_INTERVAL: seconds between two looks at everything that has not ended, 300, or a duration such as 1m."""

    lookers: int
    """MAX_RECONCILE_RATE: objects looked at at once, 10."""

    defaults_folder: Path
    """INFERRUN_DEFAULTS: where the ConfigMap with the operator's defaults is mounted."""

    runner_account: str
    """SA_RUNNER: the service account of runners' Pods, which every config may name."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """The settings in `environment`; raises ValueError that names what is wrong."""
        return cls(
            common=CommonSettings.read(environment),
            resync_seconds=_seconds(environment.get("POLLING_INTERVAL", "").strip() or "300"),
            lookers=whole_number(environment, "MAX_RECONCILE_RATE", default=10, least=1),
            defaults_folder=Path(environment.get("INFERRUN_DEFAULTS", "/etc/inferrun/config")),
            runner_account=environment.get("SA_RUNNER", ""),
        )


def _seconds(text: str) -> int:
    found = _DURATION.fullmatch(f"{text}s" if text.isdigit() else text)
    hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    if not hours and not minutes and not seconds:
        raise ValueError(
            f"POLLING_INTERVAL is {text!r}; whole seconds such as 300 or a duration such as 5m are allowed"
        )
    return hours * 3600 + minutes * 60 + seconds
