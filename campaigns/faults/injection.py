"""Injects faults into calls with a side effect, in front of the real API server and the real
Temporal server.

Production code does not know of it: the entry point of the tests (`campaigns.faults.program`)
passes these clients to the composition roots. What to inject is in a folder, one file per fault,
because the process that it hits may end: whoever claims a file, by renaming it, carries it out,
once.
"""

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import time_machine
from google.protobuf.message import Message
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode, ServiceClient

from campaigns.faults.call_sites import running_site
from campaigns.faults.pauses import pause_workflows
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Unreachable, error_of
from inferrun.kube.objects import Object, Resource

T = TypeVar("T")
Response = TypeVar("Response", bound=Message)

DELAY_SECONDS = 30.0
"""Our clients wait at most this long, too: the caller has given up when the call takes effect."""

POLL_SECONDS = 0.05

BLIND_SECONDS = 15.0
"""For so long, a process whose watches are lost learns nothing from them."""

SKEW = timedelta(hours=1)
SKEW_SECONDS = 60.0
"""For so long, the clock of a process is wrong; then it leaps back."""

TOKEN = re.compile(r"c\d{5}q")
"""Part of the names of everything that belongs to one case, by which a fault is aimed."""

OF_RUNS = "inferencerun/"
"""How the ids of workflows begin that belong to runs and to schedules."""

PRUNES = re.compile(r"-\d{14}/[^/]+/cleanup$")
"""In the id of a clean-up that deletes a run because of its schedule's limits: the next run of the
schedule has the same effect."""

ANY = "any"
"""The token of a fault in a call that belongs to no run, such as the renewal of the Lease."""


class Fault(StrEnum):
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    REPLY_LOST = "reply lost"
    UNAVAILABLE = "500"
    THROTTLED = "429"
    CONFLICT = "409"
    DELAY = "30 s delay"
    WATCH_LOST = "watch lost"
    HISTORY_LOST = "history lost"
    CLOCK_AHEAD = "clock ahead"
    CLOCK_BEHIND = "clock behind"
    PAUSED = "workflow paused"
    HOLD = "hold"
    """Not a fault of its own: the call waits until the test withdraws it, so that something else
    comes first."""


@dataclass(frozen=True)
class Plan:
    """A fault in the `nth` such call for the case with this token."""

    token: str
    site: str
    does: str
    fault: Fault
    nth: int = 1
    number: int = 0
    """Of the case, because the token may be `ANY`."""
    after: str = ""
    """The file of another fault that must have happened before."""

    @property
    def file_name(self) -> str:
        return f"{self.token}-{self.number}-{self.fault.name.lower()}.json"


class FaultFolder:
    """The faults that are planned (`*.json`), those that happened (`*.done`), and the calls that
    each process has made."""

    def __init__(self, folder: Path, *, logs_all: bool = False) -> None:
        self._folder = folder
        self._logs_all = logs_all
        self._log = folder / f"calls-{os.getpid()}.log"
        self._counts: dict[tuple[str, str, str], int] = {}

    def plan(self, plan: Plan) -> None:
        draft = self._folder / f"{plan.file_name}.draft"
        draft.write_text(json.dumps(asdict(plan)))
        draft.rename(self._folder / plan.file_name)

    def withdraw(self, plan: Plan) -> None:
        """Have it not happen, or end a hold."""
        (self._folder / plan.file_name).unlink(missing_ok=True)
        (self._folder / plan.file_name).with_suffix(".done").unlink(missing_ok=True)

    def has_happened(self, plan: Plan) -> bool:
        return (self._folder / plan.file_name).with_suffix(".done").exists()

    def claim(self, *, token: str, site: str, does: str) -> Plan | None:
        """The fault for this call, which then happens; None if there is none."""
        key = (token, site, does)
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count == 1 or self._logs_all:
            self._note(token=token, site=site, does=does)
        for path in self._folder.glob(f"{token}-*.json"):
            plan = _read(path)
            if plan is None or (plan.site, plan.does) != (site, does) or count < plan.nth:
                continue
            if plan.after and not (self._folder / plan.after).with_suffix(".done").exists():
                continue
            try:
                path.rename(path.with_suffix(".done"))
            except FileNotFoundError:
                continue  # another process was faster
            return plan
        return None

    def calls(self) -> list[tuple[str, str, str]]:
        """The calls of all processes so far, in the order in which they were first made: token,
        site, what it does."""
        lines = sorted(
            line
            for log in self._folder.glob("calls-*.log")
            for line in log.read_text().splitlines()
        )
        return list(
            dict.fromkeys(
                (token, site, does)
                for _at, token, site, does in (line.split("\t") for line in lines)
            )
        )

    def timed_calls(self) -> list[tuple[float, str]]:
        """The time of each call and what it does, if all are logged."""
        lines = [
            line
            for log in self._folder.glob("calls-*.log")
            for line in log.read_text().splitlines()
        ]
        return sorted(
            (float(at), does) for at, _token, _site, does in (line.split("\t") for line in lines)
        )

    def _note(self, *, token: str, site: str, does: str) -> None:
        with self._log.open("a") as log:
            log.write(f"{time.time():.3f}\t{token}\t{site}\t{does}\n")


def _read(path: Path) -> Plan | None:
    try:
        values = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return Plan(**{**values, "fault": Fault(values["fault"])})


@dataclass(frozen=True)
class Errors:
    """The errors with which one server answers: lost connection, internal error, throttling,
    conflict."""

    lost: Callable[[], Exception]
    unavailable: Callable[[], Exception]
    throttled: Callable[[], Exception]
    conflict: Callable[[], Exception]


class Injector:
    """Carries out what is planned for a call."""

    temporal: Client
    """Without faults."""

    def __init__(self, folder: FaultFolder) -> None:
        self._folder = folder
        self._late: set[asyncio.Future[object]] = set()
        self._is_blind_until = 0.0
        self._clock: time_machine.travel | None = None

    @property
    def blind_seconds(self) -> float:
        """For so long, watches are lost; 0 if they are not."""
        return max(0.0, self._is_blind_until - time.monotonic())

    async def perform(
        self, effect: Callable[[], Awaitable[T]], *, target: str, does: str, errors: Errors
    ) -> T:
        """Make the call, or what is planned instead. `target` names the object."""
        match = TOKEN.search(target)
        token, site = match.group() if match else ANY, running_site()
        plan = self._folder.claim(token=token, site=site, does=does)
        if plan is None:
            return await effect()
        return await self._inject(plan, effect, errors)

    async def _inject(self, plan: Plan, effect: Callable[[], Awaitable[T]], errors: Errors) -> T:
        fault = plan.fault
        if fault is Fault.CRASH_BEFORE:
            _crash()
        if fault in _ANSWERS:
            raise _ANSWERS[fault](errors)
        if fault is Fault.HOLD:
            while self._folder.has_happened(plan):  # noqa: ASYNC110 -- another process ends it
                await asyncio.sleep(POLL_SECONDS)
            return await effect()
        if fault is Fault.DELAY:
            return await self._delay(effect, errors)
        if fault is Fault.WATCH_LOST:
            self._is_blind_until = time.monotonic() + BLIND_SECONDS
        if fault is Fault.HISTORY_LOST:
            await self._lose_history(plan.token)
        if fault in _SKEWS:
            self._skew(_SKEWS[fault])
        result = await effect()
        if fault is Fault.CRASH_AFTER:
            _crash()
        if fault is Fault.PAUSED:
            await pause_workflows(self.temporal, plan.token)
        if fault is Fault.REPLY_LOST:
            raise errors.lost()
        return result

    def _skew(self, ahead: timedelta) -> None:
        """Have the clock of this process go wrong for a while. Its monotonic clock is right."""
        self._set_right()
        self._clock = time_machine.travel(datetime.now(UTC) + ahead, tick=True)
        self._clock.start()
        asyncio.get_running_loop().call_later(SKEW_SECONDS, self._set_right)

    def _set_right(self) -> None:
        if self._clock is not None:
            self._clock.stop()
            self._clock = None

    async def _lose_history(self, token: str) -> None:
        """Have Temporal forget the case's schedules, and its open workflows except those that
        programs started."""
        async for item in self.temporal.list_workflows("ExecutionStatus = 'Running'"):
            if token in item.id and item.id.startswith(OF_RUNS) and not PRUNES.search(item.id):
                execution = WorkflowExecution(workflow_id=item.id, run_id=item.run_id)
                request = DeleteWorkflowExecutionRequest(
                    namespace=self.temporal.namespace, workflow_execution=execution
                )
                with suppress(RPCError):  # which says that it is gone
                    while True:  # until then, it is one that was terminated
                        await self.temporal.workflow_service.delete_workflow_execution(request)
                        await asyncio.sleep(POLL_SECONDS)
        async for schedule in await self.temporal.list_schedules():
            if token in schedule.id:
                with suppress(RPCError):
                    await self.temporal.get_schedule_handle(schedule.id).delete()

    async def _delay(self, effect: Callable[[], Awaitable[T]], errors: Errors) -> T:
        """The call takes effect late, even if nobody waits for it any more."""
        late = asyncio.ensure_future(_later(effect))
        self._late.add(late)  # type: ignore[arg-type]  # kept until it ends, whatever it returns
        late.add_done_callback(self._forget)
        try:
            async with asyncio.timeout(DELAY_SECONDS):
                return await asyncio.shield(late)
        except TimeoutError:
            raise errors.lost() from None

    def _forget(self, late: "asyncio.Future[T]") -> None:
        self._late.discard(late)
        if not late.cancelled():
            late.exception()  # for the caller, if there still is one


async def _later(effect: Callable[[], Awaitable[T]]) -> T:
    await asyncio.sleep(DELAY_SECONDS)
    return await effect()


def _crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


_ANSWERS: dict[Fault, Callable[[Errors], Exception]] = {
    Fault.UNAVAILABLE: lambda errors: errors.unavailable(),
    Fault.THROTTLED: lambda errors: errors.throttled(),
    Fault.CONFLICT: lambda errors: errors.conflict(),
}


_SKEWS = {Fault.CLOCK_AHEAD: SKEW, Fault.CLOCK_BEHIND: -SKEW}


def _status(code: int, reason: str) -> bytes:
    return json.dumps(
        {"kind": "Status", "code": code, "reason": reason, "message": "injected"}
    ).encode()


OF_THE_API_SERVER = Errors(
    lost=lambda: Unreachable("injected: the connection was lost"),
    unavailable=lambda: error_of(500, _status(500, "InternalError")),
    throttled=lambda: error_of(429, _status(429, "TooManyRequests")),
    conflict=lambda: error_of(409, _status(409, "Conflict")),
)

OF_TEMPORAL = Errors(
    lost=lambda: RPCError("injected: the connection was lost", RPCStatusCode.UNAVAILABLE, b""),
    unavailable=lambda: RPCError("injected: internal error", RPCStatusCode.INTERNAL, b""),
    throttled=lambda: RPCError(
        "injected: too many requests", RPCStatusCode.RESOURCE_EXHAUSTED, b""
    ),
    conflict=lambda: RPCError("injected: aborted", RPCStatusCode.ABORTED, b""),
)

_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}


class FaultyKubeClient(KubeClient):
    """A client of the API server whose writes and watches pass through an injector."""

    def __init__(self, plain: KubeClient, injector: Injector) -> None:
        super().__init__(plain._configuration)
        self._injector = injector

    async def _request(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        async def effect() -> bytes:
            return await super(FaultyKubeClient, self)._request(
                method, path, body=body, params=params, content_type=content_type
            )

        if method == "GET":
            return await effect()
        kind, name = _kind_and_name(path)
        target = name or (body or {}).get("metadata", {}).get("name", "")
        does = f"{_VERBS[method]} {kind}"
        return await self._injector.perform(
            effect, target=target, does=does, errors=OF_THE_API_SERVER
        )

    async def watch(
        self, resource: Resource, namespace: str | None, *, version: str, **options: Any
    ) -> AsyncIterator[tuple[str, Object]]:  # Any: as for the real client
        async for event in super().watch(resource, namespace, version=version, **options):
            if lost := self._injector.blind_seconds:
                await asyncio.sleep(lost)
                raise error_of(410, _status(410, "Expired"))
            yield event


def _kind_and_name(path: str) -> tuple[str, str]:
    """`jobs` and the name of the Job; `inferenceruns/status` and the name of the run."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    kind = "/".join([parts[0], *parts[2:]])
    return kind, parts[1] if len(parts) > 1 else ""


_READING = ("describe_", "get_", "list_", "count_", "query_", "poll_", "check")
"""Requests without an effect on what is executed."""


class FaultyServiceClient(ServiceClient):
    """A client of the Temporal server whose writes pass through an injector; the worker's own
    requests do not."""

    def __init__(self, plain: ServiceClient, injector: Injector) -> None:
        super().__init__(plain.config)
        self._plain = plain
        self._injector = injector

    @property
    def worker_service_client(self) -> "ServiceClient":  # type: ignore[override]  # a private type of the SDK
        return self._plain.worker_service_client

    def update_rpc_metadata(self, metadata: Mapping[str, str | bytes]) -> None:
        self._plain.update_rpc_metadata(metadata)

    def update_api_key(self, api_key: str | None) -> None:
        self._plain.update_api_key(api_key)

    async def _rpc_call(
        self,
        rpc: str,
        req: Message,
        resp_type: type[Response],
        *,
        service: str,
        retry: bool,
        metadata: Mapping[str, str | bytes],
        timeout: timedelta | None,
    ) -> Response:
        async def effect() -> Response:
            return await self._plain._rpc_call(
                rpc,
                req,
                resp_type,
                service=service,
                retry=retry,
                metadata=metadata,
                timeout=timeout,
            )

        if rpc.startswith(_READING):
            return await effect()
        return await self._injector.perform(
            effect, target=_id_of(req), does=_description(rpc, req), errors=OF_TEMPORAL
        )


def _id_of(req: Message) -> str:
    execution = getattr(req, "workflow_execution", None)
    identity = getattr(req, "workflow_id", "") or getattr(req, "schedule_id", "")
    return str(identity or getattr(execution, "workflow_id", ""))


def _description(rpc: str, req: Message) -> str:
    if rpc == "start_workflow_execution":
        kind = req.workflow_type.name  # type: ignore[attr-defined]
        return f"start {kind} for recovery" if _id_of(req).endswith("/recover") else f"start {kind}"
    if rpc == "signal_workflow_execution":
        return f"signal {req.signal_name}"  # type: ignore[attr-defined]
    if rpc == "request_cancel_workflow_execution":
        return "cancel a workflow"
    if rpc == "patch_schedule":
        is_backfill = bool(req.patch.backfill_request)  # type: ignore[attr-defined]
        return "start a submission" if is_backfill else "pause a schedule"
    return rpc.replace("_", " ")
