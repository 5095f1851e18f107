"""Executes a compiled run: one launch after the other, until its outcome is known.

What a launch is and what follows from its end is decided by the rules of `inferrun.launches`, which
the worker applies, too. Here are the processes instead of Pods, the clock of this machine, and its
own file instead of the status in a cluster.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from inferrun.kube.objects import Object, name_of
from inferrun.launches import manifests, pod_state
from inferrun.launches.input_run import seen_in
from inferrun.launches.judgement import Evidence, judge_finished_job, left_result
from inferrun.launches.public_contract import encoded_contract
from inferrun.launches.retry_policy import RunStep, StepKind, concluded, next_step
from inferrun.launches.run_clock import seconds_between, timeout_of
from inferrun.launches.run_texts import hash_of
from inferrun.launches.snapshot import CompiledRun
from inferrun.launches.verdict import Produced, Verdict, VerdictKind
from inferrun.local.containers import Ended, execute, pod_of
from inferrun.local.pod import Container, LocalPod, Machine
from inferrun.local.spare import SpareProcess
from inferrun.reasons import Phase, Reason
from inferrun.resources import Attempt, InferenceRun, InferenceRunStatus
from inferrun.resources.status import ATTEMPTS_LIMIT
from inferrun.run_status import ended_status, status_after
from inferrun.runner_report import (
    SIZES,
    OutputFinding,
    OutputState,
    ProgressLine,
    last_messages,
    latest_line,
    parse_report,
)
from inferrun.text import one_line
from inferrun.timestamps import parse, utc_now

LOG: Final = "runner.log"
INSTALLATION: Final = "local"


@dataclass(frozen=True)
class Event:
    """Something that has happened, for whoever follows the run: `run` is its state from then on."""

    kind: str
    """started, progress, log, retrying, stopped or ended."""

    run: InferenceRun
    line: str = ""
    """What the runner has written, of a log."""


OnEvent = Callable[[Event], None]


class Interrupted(Exception):
    """Ctrl-C has stopped the run. What it has committed is kept, and the same command goes on."""


class LocalRun:
    """A run that is about to be executed. `more` are variables of the runner's environment that
    only this machine sets, `lock` a file that its processes lock, `spare` a process that was started
    in advance, and `write` stores each state.
    """

    def __init__(
        self,
        run: InferenceRun,
        compiled: CompiledRun,
        machine: Machine,
        *,
        folder: Path,
        lock: Path,
        spare: SpareProcess | None = None,
        write: Callable[[InferenceRun], None],
        on_event: OnEvent,
        more: dict[str, str] | None = None,
    ) -> None:
        self.run = run
        self._compiled = compiled
        contract = {name: text.encode() for name, text in compiled.texts.items()}
        config_maps = {**machine.config_maps, compiled.config_map: contract}
        self._machine = Machine(machine.claims, machine.secrets, config_maps)
        self._folder = folder
        self._lock = lock
        self._spare = spare
        self._write = write
        self._on_event = on_event
        self._more = more or {}
        self._launch = max((one.launch for one in run.status.attempts or ()), default=0)
        self._attempt = 0
        self._uncounted = 0
        """Attempts that do not count, because a later one has committed records."""

        self._committed = 0
        self._seconds_used = sum(map(_running_seconds, run.status.attempts or ()))
        self._stopping = threading.Event()

    @property
    def log(self) -> Path:
        """What the runner has written."""
        return self._folder / LOG

    def execute(self) -> InferenceRun:
        """The run with its outcome. Raises InvalidRequest, with everything that this machine lacks
        for it, and Interrupted."""
        self.log.unlink(missing_ok=True)
        while True:
            self._launch, self._attempt = self._launch + 1, self._attempt + 1
            job = self._job()
            verdict = self._judged(job)
            step = self._step_after(verdict)
            if step.kind is StepKind.FAIL and verdict.is_unclear:
                verdict = self._verified(verdict)
                step = self._step_after(verdict)
            self._list(verdict, step.reason, job=name_of(job))
            if self._stopping.is_set() and step.kind is not StepKind.SUCCEED:
                self._interrupt()
            if step.kind is not StepKind.LAUNCH:
                return self._end(verdict, step)
            self._back_off(step)

    def _job(self) -> Object:
        return manifests.job(
            self.run.ref,
            self._compiled,
            installation=INSTALLATION,
            launch=self._launch,
            attempt=self._attempt,
            seconds_left=self._whole_seconds_left(),
        )

    def _pod(self, job: Object) -> LocalPod:
        spec = job["spec"]["template"]["spec"]
        return LocalPod(
            spec,
            self._machine,
            root=self._folder / "pod",
            uid=f"local-{self.run.ref.uid}",
            variables=self._more,
        )

    def _judged(self, job: Object) -> Verdict:
        """Execute the Job's Pods, and say what their end means."""
        snapshot = self._compiled.snapshot
        with self._pod(job).mounted() as pod:
            pods = self._executed(pod, name=name_of(job))
        has_succeeded = any(one["status"]["phase"] == "Succeeded" for one in pods)
        condition = "Complete" if has_succeeded else "Failed"
        ended = {**job, "status": {"conditions": [{"type": condition, "status": "True"}]}}
        verdict = judge_finished_job(Evidence(ended, pods, snapshot))
        if verdict.started_at and verdict.finished_at:
            self._seconds_used += seconds_between(verdict.started_at, verdict.finished_at)
        # one whose init container failed has not run
        ran = [one for one in pods if pod_state.container_end(one) is not None]
        is_readable = all(left_result(one, snapshot) for one in ran)
        is_readable |= verdict.kind is VerdictKind.SUCCEEDED
        log = last_messages(self._tail(), limit=SIZES.message) if not is_readable else ""
        verdict = verdict.model_copy(update={"is_unclear": not is_readable, "log": log})
        records = verdict.records
        if records is not None and (done := records.completed + records.failed) > self._committed:
            self._committed, self._uncounted = done, self._attempt - 1
        return verdict

    def _executed(self, pod: LocalPod, *, name: str) -> list[Object]:
        self._announce()
        for container in pod.init_containers:
            (ended,) = self._run([container])
            if ended.exit_code != 0:
                return [pod_of(name, ended, is_warm_up=True)]
        shards = self._compiled.snapshot.shards
        ends = self._run(pod.containers(shards=shards))
        return [pod_of(f"{name}-{at}" if shards > 1 else name, one) for at, one in enumerate(ends)]

    def _run(self, containers: Sequence[Container]) -> list[Ended]:
        return execute(
            containers,
            spare=self._take_spare,
            log=self.log,
            lock=self._lock,
            on_line=self._on_line,
            stopping=self._stopping,
        )

    def _take_spare(self) -> SpareProcess:
        """The process that has been started already, once, and then new ones."""
        spare, self._spare = self._spare, None
        return spare or SpareProcess()

    def _verified(self, verdict: Verdict) -> Verdict:
        """The verdict, once the store has said whether the output is committed."""
        job = manifests.verify_job(
            self.run.ref,
            self._compiled,
            installation=INSTALLATION,
            launch=self._launch,
            attempt=self._attempt,
            is_final=True,
        )
        with self._pod(job).mounted() as pod:
            (ended,) = self._run(pod.containers(shards=1))
        found = parse_report(OutputFinding, ended.message) if ended.exit_code == 0 else None
        unknown = OutputFinding(
            state=OutputState.UNKNOWN, message=one_line(ended.message, limit=256)
        )
        return concluded(verdict, found or unknown)

    def _step_after(self, verdict: Verdict) -> RunStep:
        return next_step(
            verdict,
            attempt=self._attempt - self._uncounted,
            backoff_limit=self._compiled.snapshot.backoff_limit,
            seconds_left=self._seconds_left(),
        )

    def _seconds_left(self) -> float | None:
        limit = timeout_of(self.run.spec)
        return limit - self._seconds_used if limit else None

    def _whole_seconds_left(self) -> int | None:
        left = self._seconds_left()
        return max(1, int(left)) if left is not None else None

    def _announce(self) -> None:
        read = seen_in(self._compiled.input_run)
        texts = self._compiled.texts
        self._change(
            "started",
            phase=Phase.RUNNING,
            reason=Reason.RUNNING,
            message="the runner is a process of this machine",
            cleared=("pace", "records"),
            attempt=self._attempt,
            contract=encoded_contract(self._compiled.contract_json),
            snapshot_hash=hash_of(texts),
            input_run=read,
            start_time=self.run.status.start_time or utc_now(),
        )

    def _on_line(self, _shard: int, line: str) -> None:
        report = latest_line(ProgressLine, line)
        if report is None:
            self._on_event(Event("log", self.run, line))
            return
        status = self.run.status.model_copy(
            update={"records": report.records, "pace": report.pace, "usage": report.usage}
        )
        self.run = self.run.model_copy(update={"status": status})
        self._on_event(Event("progress", self.run))

    def _list(self, verdict: Verdict, reason: Reason, *, job: str) -> None:
        attempt = verdict.listed(
            launch=self._launch, attempt=self._attempt, job_name=job, reason=reason
        )
        attempts = (*(self.run.status.attempts or ()), attempt)[-ATTEMPTS_LIMIT:]
        status = self.run.status.model_copy(update={"attempts": attempts})
        self.run = self.run.model_copy(update={"status": status})

    def _back_off(self, step: RunStep) -> None:
        of = self._compiled.snapshot.backoff_limit + 1 + self._uncounted
        text = step.pause_text(attempt=self._attempt + 1, of=of)
        self._change(
            "retrying",
            phase=Phase.PENDING,
            reason=Reason.RETRY_BACKOFF,
            message=text,
            cleared=("pace",),
        )
        try:
            time.sleep(step.delay)
        except KeyboardInterrupt:
            self._interrupt()

    def _interrupt(self) -> None:
        text = "stopped by Ctrl-C; the same command continues after the last commit"
        self._change(
            "stopped",
            phase=Phase.SUSPENDED,
            reason=Reason.SUSPENDED,
            message=text,
            cleared=("pace",),
        )
        raise Interrupted(text)

    def _end(self, verdict: Verdict, step: RunStep) -> InferenceRun:
        has_succeeded = step.kind is StepKind.SUCCEED
        status = ended_status(
            self.run,
            phase=Phase.SUCCEEDED if has_succeeded else Phase.FAILED,
            reason=step.reason,
            message=step.message,
            now=utc_now(),
            finished=parse(verdict.finished_at) if verdict.finished_at else None,
            earliest=self.run.metadata.creation_timestamp,
            attempt=self._attempt,
            attempts=self.run.status.attempts or None,
            exit_code=verdict.exit_code,
            **Produced.fields_of(verdict),
        )
        return self._store("ended", status)

    def _change(self, kind: str, **changes: Any) -> None:  # Any: of `status_after`
        self._store(kind, status_after(self.run, now=utc_now(), read_generation=1, **changes))

    def _store(self, kind: str, status: InferenceRunStatus) -> InferenceRun:
        self.run = self.run.model_copy(update={"status": status})
        self._write(self.run)
        self._on_event(Event(kind, self.run))
        return self.run

    def _tail(self) -> str:
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - 64 * 1024))
            return file.read().decode(errors="replace")


def _running_seconds(attempt: Attempt) -> float:
    if attempt.start_time is None or attempt.completion_time is None:
        return 0.0
    return (attempt.completion_time - attempt.start_time).total_seconds()
