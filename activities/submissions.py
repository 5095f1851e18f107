"""The activities of the front door: make a run or find it, look at it, cancel it; and what a schedule leaves behind.

Each is idempotent by the run's name and UID. What cannot succeed is an answer; an API server that is away is an error,
which Temporal tries again.
"""

from datetime import datetime

from temporalio import activity
from temporalio.client import Client, WorkflowContinuedAsNewError, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities.rules.child_runs import Match, match, result_of, scheduled_run, submitted_run, to_prune
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from inferrun.kube.objects import RUNS, Object
from inferrun.kube.runs import RunStore
from inferrun.names import schedule_id
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun, parse_run
from inferrun.run_ref import RunRef
from inferrun.submission import InvalidSubmission, parse_submission
from inferrun.temporal.errors import ignore_not_found
from inferrun.temporal.run_workflows import cancel_run
from workflows import activity_options, messages
from workflows.messages import (
    CancelRunInput,
    DeleteScheduleInput,
    ReadRunInput,
    RecordResult,
    RunResult,
    Standing,
    SubmitInput,
    Submitted,
)

LIST_PAGE = "500"


class Submissions:
    """One instance serves all submissions of a worker; `namespaces` are those it may reach, None for all."""

    def __init__(self, api: KubeClient, temporal: Client, *, namespaces: frozenset[str] | None) -> None:
        self._api = api
        self._runs = RunStore(api)
        self._temporal = temporal
        self._memory = Memory(temporal)
        self._namespaces = namespaces

    @activity.defn(name=activity_options.SUBMIT.name)
    async def submit_run(self, request: SubmitInput) -> Submitted:
        """Create the run, or find it where it was created before."""
        namespace = request.submission.namespace
        if self._namespaces is not None and namespace not in self._namespaces:
            allowed = ", ".join(sorted(self._namespaces)) or "none"
            return refused(Reason.REQUEST_REFUSED, f"namespace: {namespace!r} is out of reach here; allowed: {allowed}")
        wanted = await self._wanted(request)
        if wanted is None:
            return Submitted(standing=Standing.NO_PARENT)
        name = wanted["metadata"]["name"]
        found = await self._find(namespace, name)
        if found is not None:
            return _adopted(wanted, found)
        if request.submission.parent is None:
            remembered = await self._memory.recall(request)
            if remembered is not None:
                return remembered
        return await self._create(namespace, wanted)

    @activity.defn(name=activity_options.READ_RUN.name)
    async def read_run(self, request: ReadRunInput) -> Submitted:
        """How the run stands."""
        run = request.run
        return _standing(run, await self._runs.read(run))

    @activity.defn(name=activity_options.CANCEL_RUN.name)
    async def cancel_run(self, request: CancelRunInput) -> Submitted:
        """Ask for the run's end: on the run, which outlives everybody, and of its workflow, which acts at once."""
        ref = request.run
        run = await self._runs.read(ref)
        if run is not None and not run.status.is_terminal:
            await self._request_cancel(run)
            await cancel_run(self._temporal, ref)
            run = await self._runs.read(ref)
        return _standing(ref, run)

    @activity.defn(name=activity_options.DELETE_SCHEDULE.name)
    async def delete_schedule(self, request: DeleteScheduleInput) -> RecordResult:
        """Delete the Temporal schedule of a scheduled run; one that is gone already is success."""
        parent = request.parent
        handle = self._temporal.get_schedule_handle(schedule_id(parent))
        with ignore_not_found():
            await handle.delete()
        return RecordResult(gone=True)

    async def prune_children(self, parent: RunRef) -> list[str]:
        """Delete the finished children that the parent's history limits do not keep; the names of those deleted."""
        schedule = await self._runs.read(parent)
        if schedule is None:
            return []
        deleted = []
        for child in to_prune(schedule, await self._children(parent)):
            try:
                await self._api.delete(RUNS, parent.namespace, child.metadata.name, uid=child.metadata.uid)
            except (NotFound, Conflict):
                continue
            deleted.append(child.metadata.name)
        return deleted

    async def _children(self, parent: RunRef) -> list[InferenceRun]:
        params = {"labelSelector": f"{wellknown.LABEL_SCHEDULE_UID}={parent.uid}", "limit": LIST_PAGE}
        found = []
        while True:
            page = await self._api.list(RUNS, parent.namespace, **params)
            found += [parse_run(item) for item in page.get("items") or []]
            token = page["metadata"].get("continue")
            if not token:
                return found
            params["continue"] = token

    async def _wanted(self, request: SubmitInput) -> Object | None:
        """The manifest to create; None where it is a schedule's and the scheduled run is gone."""
        parent = request.submission.parent
        if parent is None:
            return submitted_run(request.submission, workflow_id=request.workflow_id)
        schedule = await self._runs.read(
            RunRef(namespace=request.submission.namespace, name=parent.name, uid=parent.uid)
        )
        if schedule is None or not schedule.spec.is_schedule:
            return None
        due = datetime.fromisoformat(request.nominal_time) if request.nominal_time else activity.info().scheduled_time
        return scheduled_run(schedule, workflow_id=request.workflow_id, nominal_time=due)

    async def _find(self, namespace: str, name: str) -> InferenceRun | None:
        try:
            return parse_run(await self._api.get(RUNS, namespace, name))
        except NotFound:
            return None

    async def _create(self, namespace: str, wanted: Object) -> Submitted:
        try:
            stored = await self._api.create(RUNS, namespace, wanted)
        except AlreadyExists:
            return _adopted(wanted, parse_run(await self._api.get(RUNS, namespace, wanted["metadata"]["name"])))
        except (Invalid, Forbidden, NotFound) as error:
            return refused(Reason.REQUEST_REFUSED, str(error))
        run = parse_run(stored)
        return Submitted(standing=Standing.UNDER_WAY, run=run.ref)

    async def _request_cancel(self, run: InferenceRun) -> None:
        metadata = {"uid": run.metadata.uid, "annotations": {wellknown.ANNOTATION_CANCEL_REQUESTED: "true"}}
        try:
            await self._api.patch(RUNS, run.metadata.namespace, run.metadata.name, {"metadata": metadata})
        except NotFound:
            return


class Memory:
    """What Temporal remembers of earlier submissions under the same id, whose run is deleted since.

    Visibility allows few requests a second, so it is asked only before a run is made for a program.
    """

    def __init__(self, temporal: Client) -> None:
        self._temporal = temporal

    async def recall(self, request: SubmitInput) -> Submitted | None:
        """How the earlier submission of that id ended; None where none made a run that ended."""
        query = f"WorkflowType = '{messages.SUBMIT_WORKFLOW}' AND WorkflowId = {quoted(request.workflow_id)}"
        try:
            return await self._recall(request, query)
        except RPCError as error:
            if error.status not in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED):
                raise
            return None

    async def _recall(self, request: SubmitInput, query: str) -> Submitted | None:
        async for execution in self._temporal.list_workflows(query, page_size=10):
            if execution.run_id == request.execution_run_id or execution.close_time is None:
                continue
            result = await self._result(request.workflow_id, execution.run_id)
            if result is None:
                continue
            if await self._asked(request.workflow_id, execution.run_id) != request.submission.request_hash:
                return mismatch(request.workflow_id)
            run = RunRef(namespace=result.namespace, name=result.name, uid=result.uid)
            return Submitted(standing=Standing.ENDED, run=run, result=result)
        return None

    async def _result(self, workflow_id: str, run_id: str) -> RunResult | None:
        """The result of a closed execution whose run ended by itself; None for any other end."""
        handle = self._temporal.get_workflow_handle(workflow_id, run_id=run_id, result_type=RunResult)
        try:
            result: RunResult | None = await handle.result(follow_runs=False)
        except WorkflowFailureError as failure:
            cause = failure.cause
            if not isinstance(cause, ApplicationError) or not cause.details:
                return None
            return RunResult.model_validate(cause.details[0])
        except WorkflowContinuedAsNewError:
            return None  # a later execution of the same submission has the result
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None
        return result

    async def _asked(self, workflow_id: str, run_id: str) -> str | None:
        """The hash of what an execution was started with."""
        handle = self._temporal.get_workflow_handle(workflow_id, run_id=run_id)
        async for event in handle.fetch_history_events(page_size=1):
            payloads = event.workflow_execution_started_event_attributes.input.payloads
            values = await self._temporal.data_converter.decode(payloads)
            try:
                return parse_submission(values[0]).request_hash if values else None
            except InvalidSubmission:
                return None
        return None


def quoted(text: str) -> str:
    """A text as a literal of Temporal's query language."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def refused(reason: Reason, message: str) -> Submitted:
    """A submission that makes no run."""
    return Submitted(standing=Standing.REFUSED, reason=reason, message=message)


def mismatch(workflow_id: str) -> Submitted:
    """The refusal of another request under an id that was used before."""
    text = f"workflow id {workflow_id!r} was used for another request; the same id is the same run: use a new id"
    return refused(Reason.REQUEST_MISMATCH, text)


def _adopted(wanted: Object, found: InferenceRun) -> Submitted:
    kind = match(wanted, found)
    if kind is Match.OTHER_REQUEST:
        return mismatch(wanted["metadata"]["annotations"][wellknown.ANNOTATION_WORKFLOW_ID])
    if kind is Match.FOREIGN:
        place = f"{found.metadata.namespace}/{found.metadata.name}"
        return refused(Reason.NAME_TAKEN, f"InferenceRun {place} exists already and was made by somebody else")
    return _standing(found.ref, None if found.metadata.is_being_deleted else found)


def _standing(ref: RunRef, run: InferenceRun | None) -> Submitted:
    if run is None:
        return Submitted(standing=Standing.GONE, run=ref, reason=Reason.RUN_DELETED)
    if run.status.is_terminal:
        return Submitted(standing=Standing.ENDED, run=ref, result=result_of(run))
    return Submitted(standing=Standing.UNDER_WAY, run=ref, message=run.status.message or "")
