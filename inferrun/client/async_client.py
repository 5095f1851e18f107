"""The client for programs with an event loop; `inferrun.client.Client` wraps it for those without
one."""

import asyncio
import os
from base64 import b64decode
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self, TypedDict, Unpack

from pydantic import ValidationError

from inferrun import wellknown
from inferrun.client.errors import (
    ClientError,
    InvalidRequest,
    RunFailed,
    RunNotFound,
    WaitTimedOut,
    kubernetes_errors,
)
from inferrun.client.generated_names import generated_name
from inferrun.client.kubernetes_runs import KubernetesRuns, body_of
from inferrun.client.progress import progress_display
from inferrun.client.run_logs import LogLine, follow_logs, read_logs
from inferrun.fields.problems import describe, parse_problems
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import KubeError, NotConfigured
from inferrun.kube.kubeconfig import selected_kubeconfig
from inferrun.kube.objects import CONFIGS, RUNS, SECRETS
from inferrun.names import is_subdomain
from inferrun.reasons import Phase
from inferrun.resources import InferenceConfig, InferenceRun, Interval, parse_config, parse_run
from inferrun.resources.backfill import BackfillOrder, BackfillSelection
from inferrun.resources.cron import DEFAULT_TIME_ZONE
from inferrun.resources.fire_times import previous_time
from inferrun.resources.run import EXECUTION_FIELDS
from inferrun.results import PredictedRows, ResultsUnreachable, read_results
from inferrun.results.access import Access, ReadSecret
from inferrun.results.frames import Frame, upload_frame, with_results
from inferrun.run_ref import RunRef
from inferrun.run_result import RunResult, result_of
from inferrun.submission import InvalidSubmission, Submission, parse_submission
from inferrun.timestamps import rfc3339, utc_now

Run = str | RunRef | InferenceRun
"""A run as an argument: its name in the client's namespace, `namespace/name`, or what the client
has returned."""

PAGE: Final = 500


class RunOptions(TypedDict, total=False):
    """Optional fields of the spec of a run, as in `Submission`."""

    interval: Interval | Mapping[str, str]
    timeout_seconds: int
    backoff_limit: int
    pending_timeout_seconds: int
    error_threshold: int | str
    canary_records: int
    shards: int
    resources: Mapping[str, Mapping[str, int | str]]
    dry_run: bool
    retry_of: str


class BackfillOptions(TypedDict, total=False):
    """Optional fields of a back-fill, as in `spec.backfill`."""

    concurrency: int
    order: BackfillOrder
    which: BackfillSelection


class AsyncClient:
    """Starts, finds, follows and controls runs. All methods raise `ClientError`; made by
    `connect`."""

    def __init__(self, kube: KubeClient, *, namespace: str, server: str) -> None:
        self.kube = kube
        """Requests to the API server for which there is no method here."""

        self.namespace = namespace
        """Where runs are, if a name does not say it."""

        self.server = server
        """Which server is used, for messages."""

        self._runs = KubernetesRuns(kube)

    @classmethod
    async def connect(
        cls,
        *,
        namespace: str | None = None,
        kubeconfig: Path | None = None,
        context: str | None = None,
    ) -> Self:
        """A client for the cluster that kubectl would use. `namespace`: by default that of the
        kubeconfig's context or of this Pod.

        Raises NotConnected, ServerUnreachable.
        """
        with kubernetes_errors("the kubeconfig"):
            path = selected_kubeconfig(kubeconfig)
            try:
                kube = await connect(kubeconfig=path, context=context)
            except OSError as error:
                raise NotConfigured(str(error)) from error
        server = f"kubeconfig {path}" if path else "the cluster of this Pod"
        return cls(kube, namespace=namespace or kube.namespace, server=server)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self.kube.close()

    async def submit(
        self,
        config: str,
        parameters: Mapping[str, str] | None = None,
        *,
        name: str | None = None,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        **options: Unpack[RunOptions],
    ) -> InferenceRun:
        """Start a run of a config (its name, or `namespace/name`) and return it; it has not started
        to predict yet.

        With a name, the same request finds the run that it has created before, so it can be
        repeated after a failure. By default the name is that of the config and five random
        characters. Raises InvalidRequest, RequestMismatch and ConfigNotFound.
        """
        if not isinstance(config, str):
            raise InvalidRequest(
                f"config: {type(config).__name__} is not a name",
                fix="predict(frame, config) predicts a data frame",
            )
        given = {"namespace": namespace or self.namespace, "labels": dict(labels or {})}
        submission, name = _request(config, parameters, name=name, given=given, options=options)
        return await self._runs.start(submission, name=name)

    async def create(self, run: InferenceRun) -> InferenceRun:
        """Create a run or a schedule as a whole, such as one from a manifest. A run of that name
        with the same spec is found.

        Raises RequestMismatch.
        """
        metadata = run.metadata.model_copy(
            update={"namespace": run.metadata.namespace or self.namespace}
        )
        return await self._runs.create(run.model_copy(update={"metadata": metadata}))

    async def apply_config(self, config: InferenceConfig) -> InferenceConfig:
        """Create a config, or change it to be like this one."""
        namespace = config.metadata.namespace or self.namespace
        with kubernetes_errors(f"namespace {namespace}"):
            return parse_config(await self.kube.apply(CONFIGS, namespace, body_of(config)))

    async def get(self, run: Run) -> InferenceRun:
        """The run or schedule as it is. Raises RunNotFound."""
        return await self._runs.get(*self._identity(run))

    async def list(
        self, *, namespace: str | None = None, all_namespaces: bool = False, selector: str = ""
    ) -> list[InferenceRun]:
        """The runs and schedules of a namespace or of all, oldest first; `selector` selects them by
        their labels."""
        place = None if all_namespaces else namespace or self.namespace
        found: list[InferenceRun] = []
        with kubernetes_errors(f"namespace {place}"):
            token: str | None = None
            while token != "":
                more = {"continue": token} if token else {}
                page = await self.kube.page(
                    RUNS, place, max_bytes=None, limit=str(PAGE), labelSelector=selector, **more
                )
                found += map(parse_run, page.items)
                token = page.token
        return sorted(found, key=lambda run: str(run.metadata.creation_timestamp))

    async def watch(self, run: Run) -> AsyncGenerator[InferenceRun, None]:
        """The run now, and whenever it has changed, until it has ended. Of a schedule, until the
        caller stops.

        Raises RunNotFound, also if the run is deleted.
        """
        async with aclosing(self._runs.follow(*self._identity(run))) as states:
            async for state in states:
                yield state

    async def wait(
        self, run: Run, *, timeout: float | None = None, progress: bool | None = None
    ) -> RunResult:
        """Wait until the run has ended, and return its result. Raises RunFailed unless it
        succeeded.

        With `progress`, or by default in a terminal and a notebook, its progress is shown
        meanwhile. After `timeout` seconds, raises WaitTimedOut; the run goes on.
        """
        last: InferenceRun | None = None
        try:
            async with asyncio.timeout(timeout), aclosing(self.watch(run)) as states:
                with progress_display(is_wanted=progress) as show:
                    async for last in states:
                        if last.spec.is_schedule:
                            text = f"{last.ref} is a schedule, which does not end; wait for one of its runs"
                            raise InvalidRequest(text)
                        show(last)
        except TimeoutError as error:
            if isinstance(error, ClientError):
                raise
            raise WaitTimedOut(f"the run has not ended after {timeout:g} s; it goes on") from error
        if last is None:
            raise RunNotFound(f"run {'/'.join(self._identity(run))} does not exist")
        result = result_of(last)
        if result.phase is not Phase.SUCCEEDED:
            raise RunFailed(result)
        return result

    async def cancel(self, run: Run) -> None:
        """Request that the run ends; wait for it to know when it has. Raises RunEnded."""
        await self._runs.cancel(*self._identity(run))

    async def suspend(self, run: Run) -> InferenceRun:
        """Stop the run; committed records are kept. A suspended schedule starts no runs. Raises
        RunEnded."""
        return await self._set_suspended(run, is_suspended=True)

    async def resume(self, run: Run) -> InferenceRun:
        """Let a suspended run or schedule go on. Raises RunEnded."""
        return await self._set_suspended(run, is_suspended=False)

    async def retry(
        self, run: Run, *, name: str | None = None, all_records: bool = False
    ) -> InferenceRun:
        """Start a new run that predicts the records of an ended one that have no prediction, and
        whose output is complete; with `all_records`, one that predicts all of them again. Raises
        InvalidRequest.
        """
        ended = await self.get(run)
        if ended.spec.is_schedule or not ended.status.is_terminal:
            what = (
                "is a schedule"
                if ended.spec.is_schedule
                else f"has not ended ({ended.status.phase or 'Pending'})"
            )
            raise InvalidRequest(
                f"run {ended.ref} {what}; only a run that has ended can be retried"
            )
        kept = EXECUTION_FIELDS | {"interval"}
        spec = ended.spec.model_dump(mode="json", by_alias=True, exclude_none=True, include=kept)
        if not all_records:
            spec["retryOf"] = ended.metadata.name
        labels = {
            key: text
            for key, text in ended.metadata.labels.items()
            if not key.startswith(wellknown.DOMAIN)
        }
        base = ended.metadata.name.partition("-retry-")[0]
        new = name or generated_name(f"{base}-retry")
        metadata = {"name": new, "namespace": ended.metadata.namespace, "labels": labels}
        return await self.create(parse_run({"metadata": metadata, "spec": spec}))

    async def backfill(
        self,
        schedule: Run,
        *,
        start: datetime,
        end: datetime,
        name: str | None = None,
        **options: Unpack[BackfillOptions],
    ) -> InferenceRun:
        """Start the runs of a schedule for its times from `start` to `end`, both included, with a
        run that can be waited for, suspended and cancelled. Raises InvalidRequest.
        """
        found, _ = await self._schedule(schedule)
        given = {
            "schedule": found.metadata.name,
            "start": rfc3339(start),
            "end": rfc3339(end),
            **options,
        }
        new = name or generated_name(f"{found.metadata.name}-backfill")
        metadata = {"name": new, "namespace": found.metadata.namespace}
        try:
            return await self.create(parse_run({"metadata": metadata, "spec": {"backfill": given}}))
        except ValidationError as error:
            raise InvalidRequest(describe(parse_problems(error))) from error

    async def trigger(
        self, schedule: Run, *, at: datetime | None = None, name: str | None = None
    ) -> InferenceRun:
        """Start the run of a schedule for one of its times, by default the latest one; a run for it
        that has ended is repeated.

        Raises InvalidRequest.
        """
        found, expression = await self._schedule(schedule)
        zone = found.spec.time_zone or DEFAULT_TIME_ZONE
        before = utc_now() if at is None else at + timedelta(seconds=1)
        time = previous_time(expression, time_zone=zone, before=before)
        if time is None or (at is not None and time != at):
            near = f"; the time before is {rfc3339(time)}" if time is not None else ""
            raise InvalidRequest(
                f"{rfc3339(at or before)} is not a time of schedule {found.ref} ({expression}, {zone}){near}"
            )
        new = name or generated_name(f"{found.metadata.name}-trigger")
        return await self.backfill(
            found, start=time, end=time, name=new, which=BackfillSelection.ALL
        )

    async def logs(
        self, run: Run, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[LogLine, None]:
        """The lines that the run's Pods have written; with `follow`, also those to come, until the
        run has ended.

        `tail` limits the lines that each Pod has written already.
        """
        current = await self.get(run)
        read = follow_logs if follow and not current.status.is_terminal else read_logs
        with kubernetes_errors(f"run {current.ref}"):
            async with aclosing(read(self.kube, current, tail=tail)) as lines:
                async for line in lines:
                    yield line

    async def results(
        self,
        run: Run,
        *,
        directory: Path | str | Mapping[str, Path | str] | None = None,
        credentials: Mapping[str, str] | None = None,
        join_input: bool = False,
    ) -> PredictedRows:
        """The results of a run that has succeeded: one row per record, as a table of Arrow, pandas
        or polars, or as dicts. They are read when they are used, which blocks. The arguments are
        those of `inferrun.results.read_results`; without credentials, the Secrets that the config
        names are read, if you may. Raises ResultsError.
        """
        found = await self.get(run)
        read_secret = self._secret_reader(found.metadata.namespace)
        return await asyncio.to_thread(
            read_results,
            found,
            directory=directory,
            credentials=credentials,
            read_secret=read_secret,
            join_input=join_input,
        )

    async def predict(
        self,
        frame: Frame,
        config: str,
        parameters: Mapping[str, str] | None = None,
        *,
        name: str | None = None,
        namespace: str | None = None,
        credentials: Mapping[str, str] | None = None,
        timeout: float | None = None,
        progress: bool | None = None,
        **options: Unpack[RunOptions],
    ) -> Frame:
        """Store a data frame as the input of a run, wait for the run, and return the frame with
        `prediction` and `error`.

        The input of the config must be of the label `s3`, `gcs` or `azure`, with a placeholder such
        as `$(run.name)` in its path. The other arguments are those of `submit`, `wait` and
        `results`. Raises ResultsError, InvalidRequest, RunFailed and WaitTimedOut.
        """
        place = namespace or self.namespace
        submission, name = _request(
            config, parameters, name=name, given={"namespace": place}, options=options
        )
        planned = parse_run(
            {"metadata": {"name": name, "namespace": place}, "spec": submission.run_spec()}
        )
        stored = await self._runs.config(planned.config_namespace, planned.config_name)
        access = Access(
            credentials=credentials or {},
            environment=os.environ,
            read_secret=self._secret_reader(place),
        )
        await asyncio.to_thread(upload_frame, frame, planned, stored, access=access)
        run = await self._runs.start(submission, name=name)
        await self.wait(run, timeout=timeout, progress=progress)
        return with_results(frame, await self.results(run, credentials=credentials))

    async def _schedule(self, run: Run) -> tuple[InferenceRun, str]:
        """A schedule and its expression. Raises InvalidRequest for a single run."""
        found = await self.get(run)
        if found.spec.schedule is None:
            raise InvalidRequest(f"run {found.ref} is not a schedule: it has no spec.schedule")
        return found, found.spec.schedule

    def _secret_reader(self, namespace: str) -> ReadSecret:
        """What reads a Secret from another thread."""
        loop = asyncio.get_running_loop()

        async def read(name: str) -> dict[str, str]:
            try:
                data = (await self.kube.get(SECRETS, namespace, name)).get("data") or {}
            except KubeError as error:
                raise ResultsUnreachable(
                    f"there are no credentials for the store, and its Secret {namespace}/{name} cannot be read ({error}); pass "
                    "credentials=, or set the variables of the cloud (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, "
                    "AZURE_STORAGE_ACCOUNT_KEY, …) or of PostgreSQL (PGHOST, …)"
                ) from error
            return {key: b64decode(value).decode(errors="replace") for key, value in data.items()}

        return lambda name: asyncio.run_coroutine_threadsafe(read(name), loop).result()

    async def _set_suspended(self, run: Run, *, is_suspended: bool) -> InferenceRun:
        current = await self._runs.get_open(*self._identity(run))
        return await self._runs.patch(current, {"spec": {"suspend": is_suspended}})

    def _identity(self, run: Run) -> tuple[str, str]:
        """Namespace and name."""
        if isinstance(run, InferenceRun):
            return run.metadata.namespace or self.namespace, run.metadata.name
        if isinstance(run, RunRef):
            return run.namespace, run.name
        namespace, _, name = run.rpartition("/")
        if not is_subdomain(name):
            raise InvalidRequest(f"{name!r} is not the name of a run")
        return namespace or self.namespace, name


def _request(
    config: str,
    parameters: Mapping[str, str] | None,
    *,
    name: str | None,
    given: dict[str, Any],  # Any: validated as JSON
    options: RunOptions,
) -> tuple[Submission, str]:
    """The submission, and the name of its run. Raises InvalidRequest."""
    space, _, config_name = config.rpartition("/")
    given["configRef"] = {"name": config_name, **({"namespace": space} if space else {})}
    given["parameters"] = dict(parameters) if parameters else None
    for option, value in options.items():
        first, *rest = option.split("_")
        field = first + "".join(word.title() for word in rest)
        given[field] = value.to_manifest() if isinstance(value, Interval) else value
    try:
        submission = parse_submission(
            {key: value for key, value in given.items() if value is not None}
        )
    except InvalidSubmission as error:
        raise InvalidRequest(str(error)) from error
    name = generated_name(config_name) if name is None else name
    if not is_subdomain(name):
        raise InvalidRequest(
            f"name: {name!r} is not a name of a Kubernetes object; allowed are a-z, 0-9, - and ."
        )
    return submission, name
