"""The time that the verification of an output takes at most."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class VerifyTiming:
    """Seconds of the verification of an output."""

    job: int = 300
    """The limit of its Job, including the wait for its Pod: a volume may take minutes to leave a
    lost node."""

    admission: int = 300
    """The time for which a Job is created again that a quota or a webhook does not admit."""

    whole: int = 330
    """The limit of the verification: that of its Job, and time to hear of its end."""

    def __post_init__(self) -> None:
        if not max(self.job, self.admission) < self.whole:
            raise ValueError(f"needs job, admission < whole, not {self}")


VERIFICATION: Final = VerifyTiming()
