"""One figure with its goal. Pure."""

from dataclasses import dataclass

MISSED = " (missed)"


@dataclass(frozen=True)
class Finding:
    """What was measured."""

    name: str
    value: float
    goal: str
    """`at least 0.9` or `at most 1.1`; empty if there is none."""

    def mark(self, value: float) -> str:
        """What is said beside a value that misses the goal."""
        if not self.goal:
            return ""
        bound = float(self.goal.split()[-1])
        is_met = value >= bound if self.goal.startswith("at least") else value <= bound
        return "" if is_met else MISSED

    @property
    def text(self) -> str:
        """One line."""
        goal = f" ({self.goal})" if self.goal else ""
        return f"{self.name}: {self.value:.3f}{goal}{self.mark(self.value)}"
