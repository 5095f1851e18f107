"""One pass: a burst of runs with their whole lives, single runs, and as a baseline the same Jobs
without our product.

A life begins with the request that creates the run and ends when its outcome is in the status, its
workflow is closed and its Job is marked as ended. The baseline creates the same ConfigMaps and Jobs
directly; their Pods start and end in the same way. Between phases the system becomes idle, so that
no phase is slowed down by the previous one. The runs of a pass are deleted at its end.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client

from campaigns.benchmarks.burst.job_watch import JobWatch, WaitTimeout
from campaigns.benchmarks.burst.kubelet import Kubelet
from campaigns.benchmarks.burst.usage import Meter, Usage
from control.launches import job_state
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import CONFIG_MAPS, CONFIGS, JOBS, NAMESPACES, RUNS, Object, Resource
from inferrun.names import job_base_name, run_workflow_id
from inferrun.reasons import Phase
from inferrun.run_defaults import DEFAULT_RUNNER_IMAGE
from inferrun.run_ref import RunRef

CONCURRENT_CREATES = 10
"""Concurrent create requests, for runs and for baseline objects alike."""

IDLE_SECONDS = 1.0
IDLE_LIMIT_SECONDS = 240.0

SERVICE_ACCOUNTS = Resource("v1", "serviceaccounts")


@dataclass(frozen=True)
class Burst:
    """Measurements of objects that were created concurrently. All times are in seconds."""

    latencies: tuple[float, ...]
    """From each create request until its Job was seen."""
    seconds: float
    """From the first create request until the last Job was seen."""

    @property
    def rate(self) -> float:
        """Jobs per second."""
        return len(self.latencies) / self.seconds


@dataclass(frozen=True)
class Life:
    """A burst, and what all lives of its runs have used, or of its Jobs alone."""

    burst: Burst
    to_job: Usage
    """From the first create request until the status of every run names its Job, or until all
    baseline Jobs exist."""
    whole: Usage
    """From the same request until the last Job is marked as ended, or until all Jobs are finished
    if nobody marks them."""


@dataclass(frozen=True)
class Pass:
    """The measurements of one pass."""

    life: Life
    single: tuple[float, ...]
    baseline: Life
    baseline_single: tuple[float, ...]
    ends: tuple[float, ...]
    """From the moment when the last container of the burst has ended until each run's status was
    seen to be terminal."""
    job_ends: tuple[float, ...]
    """From the same moment until each Job was seen to be finished, which its controller decides."""
    baseline_job_ends: tuple[float, ...]
    events: tuple[int, ...]
    """History events of each run of the burst, after its end."""


@dataclass(frozen=True)
class _Baseline:
    life: Life
    single: list[float]
    job_ends: tuple[float, ...]


@dataclass(frozen=True)
class Bench:
    """The settings and clients of all passes."""

    api: KubeClient
    temporal: Client
    meter: Meter
    size: int
    single: int

    async def one_pass(self, number: int) -> Pass:
        """Measure once. Even passes measure the baseline after the single runs, odd passes before
        them, to cancel out drift."""
        namespace, baseline_namespace = f"burst-{number}", f"baseline-{number}"
        await self.prepare(namespace)
        await self.prepare(baseline_namespace)
        async with JobWatch(self.api, namespace) as seen:
            begun = await self.meter.start()
            burst = await self.burst(seen, namespace)
            to_job = await self.meter.since(begun)
            objects = await self._objects(seen, namespace)
            begun = await self.meter.start()
            ends, job_ends = await self._live(seen)
            whole = to_job + await self.meter.since(begun)
            events = await self._events(seen)
            await asyncio.sleep(IDLE_SECONDS)
            single = [] if number % 2 else await self.singles(seen, namespace)
            bare = await self._baseline(objects, baseline_namespace)
            single = single or await self.singles(seen, namespace)
            await self.remove(seen)
        return Pass(
            life=Life(burst, to_job, whole),
            single=tuple(single),
            baseline=bare.life,
            baseline_single=tuple(bare.single),
            ends=ends,
            job_ends=job_ends,
            baseline_job_ends=bare.job_ends,
            events=events,
        )

    async def warm_up(self, namespace: str) -> None:
        """Execute runs in a namespace of their own, without measuring."""
        await self.prepare(namespace)
        async with JobWatch(self.api, namespace) as seen:
            await self.burst(seen, namespace)
            await self._live(seen)
            await self.remove(seen)

    async def prepare(self, namespace: str) -> None:
        """Create a namespace with a config."""
        await self.api.create(
            NAMESPACES,
            None,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        )
        await self.api.create(CONFIGS, namespace, CONFIG)
        await until(lambda: self._has_account(namespace), what="the namespace's service account")
        await asyncio.sleep(IDLE_SECONDS)

    async def _has_account(self, namespace: str) -> bool:
        try:
            await self.api.get(SERVICE_ACCOUNTS, namespace, "default")
        except NotFound:
            return False
        return True

    async def burst(self, seen: JobWatch, namespace: str) -> Burst:
        """Create all runs, wait for all Jobs, then until every status names its Job."""
        sent: dict[str, float] = {}
        began = time.monotonic()

        async def apply(number: int) -> None:
            name = f"run-{number}"
            at = time.monotonic()
            sent[await self._apply(namespace, name)] = at

        await run_concurrently(apply, self.size)
        await seen.wait(lambda: sent.keys() <= seen.first_seen.keys(), what="the Jobs of the burst")
        await seen.wait(
            lambda: all(map(_names_its_job, seen.runs())), what="the statuses of the burst"
        )
        return _measured(sent, seen, began)

    async def _live(self, seen: JobWatch) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Let the containers of the burst start and end; returns how long the statuses and the Jobs
        took to say so."""
        await self.start_pods(seen)
        await seen.wait(
            lambda: all(_phase_of(run) == Phase.RUNNING for run in seen.runs()),
            what="the runs to be running",
        )
        await Kubelet(self.api).end(seen.pods())
        ended = time.monotonic()
        await seen.wait(lambda: len(seen.ended_at) >= self.size, what="the ends of the runs")
        await until(self._has_no_open_workflow, what="the workflows of the burst to close")
        await seen.wait(
            lambda: all(map(_is_marked, seen.jobs())), what="the Jobs of the burst to be marked"
        )
        return _since(ended, seen.ended_at), _since(ended, seen.finished_at)

    async def start_pods(self, seen: JobWatch) -> None:
        """Wait for all Pods, and let their containers run."""
        await seen.wait(lambda: len(seen.pods()) >= self.size, what="the Pods of the burst")
        await Kubelet(self.api).start(seen.pods())

    async def singles(self, seen: JobWatch, namespace: str) -> list[float]:
        """Create runs one after the other, each when the system is idle."""
        found = []
        for number in range(self.single):
            at = time.monotonic()
            job = await self._apply(namespace, f"single-{number}")
            await seen.wait(lambda: job in seen.first_seen, what="the Job of a single run")  # noqa: B023 -- called in this iteration only
            found.append(seen.first_seen[job] - at)
            await self._wait_until_idle(seen)
        return found

    async def _apply(self, namespace: str, name: str) -> str:
        """Create a run and return the name that its Job will have."""
        body = {
            "apiVersion": wellknown.API_VERSION,
            "kind": wellknown.RUN_KIND,
            "metadata": {"name": name},
            "spec": {
                "configRef": {"name": CONFIG["metadata"]["name"], "namespace": namespace},
                "timeoutSeconds": 0,
                "parameters": {"table": "iris"},
            },
        }
        stored = await self.api.create(RUNS, namespace, body)
        return job_base_name(name, stored["metadata"]["uid"])

    async def _baseline(self, objects: list[tuple[Object, Object]], namespace: str) -> _Baseline:
        """Create copies of the same ConfigMaps and Jobs directly, concurrently and one by one."""
        async with JobWatch(self.api, namespace) as seen:
            sent: dict[str, float] = {}
            begun, began = await self.meter.start(), time.monotonic()

            async def create(number: int) -> None:
                at = time.monotonic()
                sent[await self._create(objects[number], namespace)] = at

            await run_concurrently(create, len(objects))
            await seen.wait(lambda: sent.keys() <= seen.first_seen.keys(), what="the baseline Jobs")
            burst, to_job = _measured(sent, seen, began), await self.meter.since(begun)
            await self.start_pods(seen)
            await Kubelet(self.api).end(seen.pods())
            ended = time.monotonic()
            await seen.wait(
                lambda: all(map(job_state.is_finished, seen.jobs())),
                what="the ends of the baseline Jobs",
            )
            life = Life(burst, to_job, await self.meter.since(begun))
            ends = _since(ended, seen.finished_at)
            await asyncio.sleep(IDLE_SECONDS)
            single = await self._baseline_single(objects[: self.single], seen, namespace)
            return _Baseline(life, single, ends)

    async def _baseline_single(
        self, objects: list[tuple[Object, Object]], seen: JobWatch, namespace: str
    ) -> list[float]:
        found = []
        for pair in objects:
            at = time.monotonic()
            name = await self._create((_renamed(pair[0]), _renamed(pair[1])), namespace)
            await seen.wait(lambda: name in seen.first_seen, what="a baseline Job")  # noqa: B023 -- called in this iteration only
            found.append(seen.first_seen[name] - at)
            await self._wait_until_idle(seen)
        return found

    async def _create(self, pair: tuple[Object, Object], namespace: str) -> str:
        config_map, job = pair
        await self.api.create(CONFIG_MAPS, namespace, config_map)
        await self.api.create(JOBS, namespace, job)
        return str(job["metadata"]["name"])

    async def _objects(self, seen: JobWatch, namespace: str) -> list[tuple[Object, Object]]:
        """Copies of the objects that the burst created, without the marks of the product."""
        found = []
        for job in seen.jobs():
            config_map = await self.api.get(CONFIG_MAPS, namespace, job["metadata"]["name"])
            found.append(
                (
                    _baseline_copy(config_map, "v1", "ConfigMap"),
                    _baseline_copy(job, "batch/v1", "Job"),
                )
            )
        return found

    async def _events(self, seen: JobWatch) -> tuple[int, ...]:
        lengths = []
        for run in seen.runs():
            metadata = run["metadata"]
            workflow = run_workflow_id(RunRef.model_validate(metadata))
            description = await self.temporal.get_workflow_handle(workflow).describe()
            lengths.append(description.raw_description.workflow_execution_info.history_length)
        return tuple(lengths)

    async def _wait_until_idle(self, seen: JobWatch) -> None:
        """Wait until every Job has its Pod, and a little longer."""
        await seen.wait(lambda: all(map(_has_pod, seen.jobs())), what="the Pods of the Jobs")
        await asyncio.sleep(IDLE_SECONDS)

    async def remove(self, seen: JobWatch) -> None:
        """Delete the runs and wait until their workflows are closed; everything else is discarded
        with the servers."""
        for run in seen.runs():
            metadata = run["metadata"]
            await self.api.delete(
                RUNS, metadata["namespace"], metadata["name"], uid=metadata["uid"]
            )
        await until(self._has_no_open_workflow, what="the workflows of deleted runs to close")
        await seen.wait(
            lambda: not (seen.jobs() or seen.runs()), what="deleted runs and their Jobs to go"
        )
        await asyncio.sleep(IDLE_SECONDS)

    async def _has_no_open_workflow(self) -> bool:
        return (await self.temporal.count_workflows("ExecutionStatus = 'Running'")).count == 0


CONFIG: dict[str, Any] = {  # Any: a manifest
    "apiVersion": wellknown.API_VERSION,
    "kind": wellknown.CONFIG_KIND,
    "metadata": {"name": "iris"},
    "spec": {
        "autoDeletePolicy": "None",
        "image": DEFAULT_RUNNER_IMAGE,
        "kserve": {
            "modelName": "sklearn-iris",
            "modelUrl": "sklearn-iris-predictor.kserve-test.svc.cluster.local/v2/models/sklearn-iris/infer",
            "modelVersion": "v2",
            "modelInputName": "input-0",
        },
        "storage": {
            end: {
                "krateo": {
                    "api": {
                        "path": f"/compute/sklearn{end}",
                        "verb": "POST",
                        "headers": ["Accept: application/json", "Content-Type: application/json"],
                        "endpointRef": {"name": "data-handler-endpoint"},
                    }
                }
            }
            for end in ("input", "output")
        },
    },
}
"""The config of the demo, which has storage objects of realistic size and uses the product's
runner. It and the runs have all fields that Krateo's controller requires."""


async def run_concurrently(act: Callable[[int], Awaitable[None]], count: int) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await act(number)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONCURRENT_CREATES):
            tasks.create_task(worker())


async def until(condition: Callable[[], Awaitable[bool]], *, what: str) -> None:
    """Poll until the condition holds. Raises WaitTimeout."""
    deadline = time.monotonic() + IDLE_LIMIT_SECONDS
    while not await condition():
        if time.monotonic() > deadline:
            raise WaitTimeout(f"timed out after {IDLE_LIMIT_SECONDS:.0f} s waiting for {what}")
        await asyncio.sleep(0.2)


def _since(moment: float, seen_at: Mapping[str, float]) -> tuple[float, ...]:
    return tuple(max(0.0, at - moment) for at in seen_at.values())


def _measured(sent: dict[str, float], seen: JobWatch, began: float) -> Burst:
    latencies = tuple(seen.first_seen[name] - at for name, at in sent.items())
    return Burst(latencies, max(seen.first_seen[name] for name in sent) - began)


def _names_its_job(run: Object) -> bool:
    return bool((run.get("status") or {}).get("jobStatus"))


def _phase_of(run: Object) -> object:
    return (run.get("status") or {}).get("phase")


def _is_marked(job: Object) -> bool:
    return wellknown.LABEL_ENDED in (job["metadata"].get("labels") or {})


def _has_pod(job: Object) -> bool:
    return bool(job.get("status", {}).get("active")) or job_state.is_finished(job)


def _baseline_copy(item: Object, version: str, kind: str) -> Object:
    """The object as it was sent, but without its owner, which does not exist here, and not managed
    by the worker."""
    metadata = item["metadata"]
    kept = {
        "name": metadata["name"],
        "labels": {**metadata["labels"], wellknown.LABEL_MANAGED_BY: "benchmark"},
        "annotations": {
            wellknown.ANNOTATION_RUN: metadata["annotations"][wellknown.ANNOTATION_RUN]
        },
    }
    copy = {key: value for key, value in item.items() if key in ("data", "immutable", "spec")}
    if kind == "Job":
        copy["spec"] = _as_sent(item["spec"])
    return {"apiVersion": version, "kind": kind, "metadata": kept, **copy}


def _as_sent(spec: Object) -> Object:
    """The spec of a Job that starts at once, without the selector and the labels that the API
    server adds."""
    template = spec["template"]
    labels = {
        key: value
        for key, value in template["metadata"]["labels"].items()
        if not _is_of_the_server(key)
    }
    labels[wellknown.LABEL_MANAGED_BY] = "benchmark"
    metadata = {"labels": labels, "annotations": template["metadata"].get("annotations", {})}
    kept = {key: value for key, value in spec.items() if key not in ("selector", "template")}
    return {
        **kept,
        "parallelism": spec["completions"],
        "template": {"metadata": metadata, "spec": template["spec"]},
    }


def _is_of_the_server(label: str) -> bool:
    return label in ("controller-uid", "job-name") or label.startswith("batch.kubernetes.io/")


def _renamed(item: Object) -> Object:
    metadata = item["metadata"]
    return {**item, "metadata": {**metadata, "name": f"{metadata['name']}-l"}}
