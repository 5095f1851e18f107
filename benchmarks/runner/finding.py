"""One figure with its goal. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """What was measured."""

    name: str
    value: float
    goal: str

    @property
    def text(self) -> str:
        """One line."""
        return f"{self.name}: {self.value:.3f}" + (f" ({self.goal})" if self.goal else "")
