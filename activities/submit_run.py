"""`SubmitRun`: creates the run of a submission, or finds the one that the same submission created earlier.

Idempotent by the run's name. What cannot succeed is returned as a result; an unreachable API server is an error, which
Temporal retries.
"""

from temporalio import activity

from activities.cluster.submission_history import SubmissionHistory
from activities.rules.child_runs import scheduled_run, submitted_run
from activities.rules.object_metadata import name_of
from activities.rules.submission_status import adopted, rejected, status_of
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, Forbidden, Invalid, NotFound
from inferrun.kube.objects import RUNS, Object
from inferrun.kube.runs import RunStore
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun, parse_run
from inferrun.run_ref import RunRef
from inferrun.timestamps import parse
from workflows import activity_options
from workflows.messages import SubmissionState, SubmissionStatus, SubmitInput


class RunSubmitter:
    """`namespaces` are those in which it may create runs, None for all."""

    def __init__(
        self, api: KubeClient, runs: RunStore, *, history: SubmissionHistory, namespaces: frozenset[str] | None
    ) -> None:
        self._api = api
        self._runs = runs
        self._history = history
        self._namespaces = namespaces

    @activity.defn(name=activity_options.SUBMIT.name)
    async def submit_run(self, request: SubmitInput) -> SubmissionStatus:
        """The run, created or found, or why there is none."""
        namespace = request.submission.namespace
        if self._namespaces is not None and namespace not in self._namespaces:
            allowed = ", ".join(sorted(self._namespaces)) or "none"
            text = f"namespace: {namespace!r} is not served by this installation; allowed: {allowed}"
            return rejected(Reason.REQUEST_REFUSED, text)
        wanted = await self._wanted(request)
        if wanted is None:
            return SubmissionStatus(standing=SubmissionState.NO_PARENT)
        found = await self._find(namespace, name_of(wanted))
        if found is not None:
            return adopted(wanted, found)
        if request.submission.parent is None:
            earlier = await self._history.find(request)
            if earlier is not None:
                return earlier
        return await self._create(namespace, wanted)

    async def _wanted(self, request: SubmitInput) -> Object | None:
        """The run to create; None if it is a schedule's and the scheduled run no longer exists."""
        parent = request.submission.parent
        if parent is None:
            return submitted_run(request.submission, workflow_id=request.workflow_id)
        ref = RunRef(namespace=request.submission.namespace, name=parent.name, uid=parent.uid)
        schedule = await self._runs.read(ref)
        if schedule is None or not schedule.spec.is_schedule:
            return None
        due = parse(request.nominal_time) if request.nominal_time else activity.info().scheduled_time
        return scheduled_run(schedule, workflow_id=request.workflow_id, nominal_time=due)

    async def _find(self, namespace: str, name: str) -> InferenceRun | None:
        try:
            return parse_run(await self._api.get(RUNS, namespace, name))
        except NotFound:
            return None

    async def _create(self, namespace: str, wanted: Object) -> SubmissionStatus:
        try:
            created = parse_run(await self._api.create(RUNS, namespace, wanted))
        except AlreadyExists:
            return adopted(wanted, parse_run(await self._api.get(RUNS, namespace, name_of(wanted))))
        except (Invalid, Forbidden, NotFound) as error:
            return rejected(Reason.REQUEST_REFUSED, str(error))
        return status_of(created.ref, created)
