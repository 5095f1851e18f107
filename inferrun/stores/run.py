"""The label `run`: the results of another run. Pure."""

from collections.abc import Iterator
from typing import ClassVar

from inferrun.fields.problems import Problem, invalid
from inferrun.fields.scalars import ResourceName
from inferrun.stores.declaration import End, Store


class RunStorage(Store):
    """The committed output of another run in the namespace of the run; for the input only."""

    label = "run"
    ends = ("input",)
    shared = ("input",)
    placeholders: ClassVar = {("name",): "object_name", ("schedule",): "object_name"}

    name: ResourceName | None = None
    """Name of that run. This run waits until it has succeeded."""

    schedule: ResourceName | None = None
    """Name of a schedule, instead of name: the output of its run for the same scheduled time, which
    is the end of this run's interval."""

    def problems(self, *, end: End, path: str) -> Iterator[Problem]:
        """None or both of the names."""
        yield from super().problems(end=end, path=path)
        if end in self.ends and (self.name is None) == (self.schedule is None):
            allowed = (
                "set either name, of a run, or schedule, whose run of the same interval is read"
            )
            yield invalid(f"{path}.name", self.name, allowed)
