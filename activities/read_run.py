"""`ReadRun`: reads the state of a submission's run."""

from temporalio import activity

from activities.rules.submission_status import status_of
from inferrun.kube.runs import RunStore
from workflows import activity_options
from workflows.messages import ReadRunInput, SubmissionStatus


class RunReader:
    """One instance serves all submissions of a worker."""

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs

    @activity.defn(name=activity_options.READ_RUN.name)
    async def read_run(self, request: ReadRunInput) -> SubmissionStatus:
        """The state of the run."""
        return status_of(request.run, await self._runs.read(request.run))
