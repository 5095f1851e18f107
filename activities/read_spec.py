"""`ReadSpec`: reads the fields of a run's spec that take effect while the run is in progress."""

from temporalio import activity

from inferrun.kube.runs import RunStore
from workflows import activity_options
from workflows.messages import ReadSpecInput, SpecChanged, SpecResult
from workflows.run_clock import timeout_of


class SpecReader:
    """One instance serves all runs of a worker."""

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs

    @activity.defn(name=activity_options.READ_SPEC.name)
    async def read_spec(self, request: ReadSpecInput) -> SpecResult:
        """The current values."""
        run = await self._runs.read(request.run)
        if run is None:
            return SpecResult()
        return SpecResult(spec=SpecChanged(timeout_seconds=timeout_of(run.spec), suspend=bool(run.spec.suspend)))
