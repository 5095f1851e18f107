"""The client for programs without an event loop: `AsyncClient` on a loop in a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Self, TypeVar, Unpack

from inferrun.client.async_client import AsyncClient, BackfillOptions, Door, Run, RunOptions
from inferrun.client.run_logs import LogLine
from inferrun.resources import InferenceConfig, InferenceRun
from inferrun.results import Results
from inferrun.results.frames import Frame
from inferrun.run_result import RunResult
from inferrun.submission import DEFAULT_TASK_QUEUE

Value = TypeVar("Value")


class Client:
    """Starts, finds, follows and controls runs. All methods raise `ClientError`, and are described with `AsyncClient`."""

    def __init__(
        self,
        *,
        namespace: str | None = None,
        kubeconfig: Path | None = None,
        context: str | None = None,
        through: Door | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        codec_keys: Path | None = None,
    ) -> None:
        """Connect as `AsyncClient.connect` does."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="inferrun-client", daemon=True)
        self._thread.start()
        connecting = AsyncClient.connect(
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
            through=through,
            task_queue=task_queue,
            codec_keys=codec_keys,
        )
        try:
            self._client = self._run(connecting)
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._run(self._client.close())
        self._stop()

    @property
    def namespace(self) -> str:
        """Where runs are, if a name does not say it."""
        return self._client.namespace

    def submit(
        self,
        config: str,
        parameters: Mapping[str, str] | None = None,
        *,
        name: str | None = None,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        **options: Unpack[RunOptions],
    ) -> InferenceRun:
        """Start a run of a config and return it; it has not started to predict yet."""
        return self._run(
            self._client.submit(config, parameters, name=name, namespace=namespace, labels=labels, **options)
        )

    def create(self, run: InferenceRun) -> InferenceRun:
        """Create a run or a schedule as a whole, such as one from a manifest."""
        return self._run(self._client.create(run))

    def apply_config(self, config: InferenceConfig) -> InferenceConfig:
        """Create a config, or change it to be like this one."""
        return self._run(self._client.apply_config(config))

    def get(self, run: Run) -> InferenceRun:
        """The run or schedule as it is."""
        return self._run(self._client.get(run))

    def list(
        self, *, namespace: str | None = None, all_namespaces: bool = False, selector: str = ""
    ) -> list[InferenceRun]:
        """The runs and schedules of a namespace or of all, oldest first."""
        return self._run(self._client.list(namespace=namespace, all_namespaces=all_namespaces, selector=selector))

    def watch(self, run: Run) -> Iterator[InferenceRun]:
        """The run now, and whenever it has changed, until it has ended."""
        return self._each(self._client.watch(run))

    def wait(self, run: Run, *, timeout: float | None = None, progress: bool | None = None) -> RunResult:
        """Wait until the run has ended, and return its result. Raises RunFailed unless it succeeded."""
        return self._run(self._client.wait(run, timeout=timeout, progress=progress))

    def cancel(self, run: Run) -> None:
        """Request that the run ends; wait for it to know when it has."""
        self._run(self._client.cancel(run))

    def suspend(self, run: Run) -> InferenceRun:
        """Stop the run; committed records are kept. A suspended schedule starts no runs."""
        return self._run(self._client.suspend(run))

    def resume(self, run: Run) -> InferenceRun:
        """Let a suspended run or schedule go on."""
        return self._run(self._client.resume(run))

    def retry(self, run: Run, *, name: str | None = None, all_records: bool = False) -> InferenceRun:
        """Start a new run that predicts the records of an ended one that have no prediction."""
        return self._run(self._client.retry(run, name=name, all_records=all_records))

    def backfill(
        self,
        schedule: Run,
        *,
        start: datetime,
        end: datetime,
        name: str | None = None,
        **options: Unpack[BackfillOptions],
    ) -> InferenceRun:
        """Start the runs of a schedule for its times from `start` to `end`, both included."""
        return self._run(self._client.backfill(schedule, start=start, end=end, name=name, **options))

    def trigger(self, schedule: Run, *, at: datetime | None = None, name: str | None = None) -> InferenceRun:
        """Start the run of a schedule for one of its times, by default the latest one."""
        return self._run(self._client.trigger(schedule, at=at, name=name))

    def logs(self, run: Run, *, follow: bool = False, tail: int | None = None) -> Iterator[LogLine]:
        """The lines that the run's Pods have written; with `follow`, also those to come, until the run has ended."""
        return self._each(self._client.logs(run, follow=follow, tail=tail))

    def results(
        self,
        run: Run,
        *,
        directory: Path | str | Mapping[str, Path | str] | None = None,
        credentials: Mapping[str, str] | None = None,
        join_input: bool = False,
    ) -> Results:
        """The results of a run that has succeeded: one row per record, as a table of Arrow, pandas or polars, or as dicts."""
        return self._run(self._client.results(run, directory=directory, credentials=credentials, join_input=join_input))

    def predict(
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
        """Store a data frame as the input of a run, wait for the run, and return the frame with `prediction` and `error`."""
        return self._run(
            self._client.predict(
                frame,
                config,
                parameters,
                name=name,
                namespace=namespace,
                credentials=credentials,
                timeout=timeout,
                progress=progress,
                **options,
            )
        )

    def _run(self, work: Coroutine[object, object, Value]) -> Value:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # such as KeyboardInterrupt: the loop must not go on with it
            future.cancel()
            raise

    def _each(self, values: AsyncGenerator[Value, None]) -> Iterator[Value]:
        try:
            while True:
                try:
                    value = self._run(anext(values))
                except StopAsyncIteration:
                    return
                yield value
        finally:
            self._run(values.aclose())

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
