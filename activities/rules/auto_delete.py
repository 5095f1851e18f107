"""Whether and when a finished run is deleted. Pure."""

from dataclasses import dataclass
from typing import Self

from activities.rules.snapshot import Snapshot
from inferrun.control.run_defaults import Defaults
from inferrun.reasons import Phase
from inferrun.resources import AutoDeletePolicy, InferenceConfig


@dataclass(frozen=True)
class AutoDelete:
    """A config's autoDeletePolicy and autoDeleteDelaySeconds."""

    policy: AutoDeletePolicy
    delay_seconds: int

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot) -> Self:
        """What the run was started with."""
        return cls(snapshot.auto_delete_policy, snapshot.auto_delete_delay_seconds)

    @classmethod
    def of_config(cls, config: InferenceConfig, *, defaults: Defaults) -> Self:
        """For a run that ended before it was started."""
        delay = config.spec.auto_delete_delay_seconds
        default = defaults.auto_delete_delay_seconds
        return cls(config.spec.auto_delete_policy or AutoDeletePolicy.NONE, default if delay is None else delay)

    @property
    def because(self) -> str:
        """Why a run is deleted, for its Event and the result of the clean-up."""
        return f"autoDeletePolicy is {self.policy} and autoDeleteDelaySeconds {self.delay_seconds}"

    def deletes(self, phase: Phase | None) -> bool:
        """Whether a run that ended in this phase is deleted."""
        if self.policy is AutoDeletePolicy.DELETE_ON_SUCCESS:
            return phase is Phase.SUCCEEDED
        return self.policy is AutoDeletePolicy.DELETE_ON_COMPLETION
