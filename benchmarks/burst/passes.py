"""One pass: a burst of runs, lone runs, and the bare creation of the same ConfigMaps and Jobs.

Between two phases everything comes to rest, so that none pays for the one before. The runs of a pass are deleted at its
end, and their workflows have closed before the next one begins.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client

from benchmarks.burst.sightings import Sightings, TooSlow
from benchmarks.programs import Program
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import CONFIG_MAPS, CONFIGS, JOBS, NAMESPACES, RUNS, Object, Resource
from inferrun.names import job_base_name, run_workflow_id
from inferrun.run_ref import RunRef

APPLIERS = 10
"""Creations under way at once, for runs and for bare objects alike."""

REST_SECONDS = 1.0
REST_LIMIT = 240.0

SERVICE_ACCOUNTS = Resource("v1", "serviceaccounts")


@dataclass(frozen=True)
class Volley:
    """Objects created at once, and what came of it. Seconds."""

    latencies: tuple[float, ...]
    """From sending each apply to the sight of its Job."""
    seconds: float
    """From the first apply to the sight of the last Job."""

    @property
    def rate(self) -> float:
        """Jobs per second."""
        return len(self.latencies) / self.seconds


@dataclass(frozen=True)
class Pass:
    """What one pass measured."""

    burst: Volley
    lone: tuple[float, ...]
    bare: Volley
    bare_lone: tuple[float, ...]
    cpu: dict[str, float]
    """CPU seconds by program, from the first apply of the burst until every run's status names its Job."""
    bare_cpu: dict[str, float]
    events: tuple[int, ...]
    """History events of each run of the burst, at rest with its Job created and followed."""


@dataclass(frozen=True)
class Bench:
    """What all passes use."""

    api: KubeClient
    temporal: Client
    programs: tuple[Program, ...]
    size: int
    lone: int

    async def one_pass(self, number: int) -> Pass:
        """Measure once; even passes measure the bare creation last, odd ones in the middle."""
        namespace, bare_namespace = f"burst-{number}", f"bare-{number}"
        await self._prepare(namespace)
        await self._prepare(bare_namespace)
        async with Sightings(self.api, namespace) as seen:
            before = self._cpu()
            burst = await self._burst(seen, namespace)
            cpu = _difference(before, self._cpu())
            await self._rest(seen)
            events = await self._events(seen)
            objects = await self._objects(seen, namespace)
            lone = [] if number % 2 else await self._lone(seen, namespace)
            bare, bare_lone, bare_cpu = await self._bare(objects, bare_namespace)
            lone = lone or await self._lone(seen, namespace)
            await self._remove(seen)
        return Pass(burst, tuple(lone), bare, tuple(bare_lone), cpu, bare_cpu, events)

    async def _prepare(self, namespace: str) -> None:
        await self.api.create(
            NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
        await self.api.create(CONFIGS, namespace, CONFIG)
        await until(lambda: self._has_account(namespace), what="the namespace's service account")
        await asyncio.sleep(REST_SECONDS)

    async def _has_account(self, namespace: str) -> bool:
        try:
            await self.api.get(SERVICE_ACCOUNTS, namespace, "default")
        except NotFound:
            return False
        return True

    async def _burst(self, seen: Sightings, namespace: str) -> Volley:
        """Apply all runs, wait for all Jobs, then for all statuses to name them."""
        sent: dict[str, float] = {}
        began = time.monotonic()

        async def apply(number: int) -> None:
            name = f"run-{number}"
            at = time.monotonic()
            sent[await self._apply(namespace, name)] = at

        await _all_at_once(apply, self.size)
        await seen.wait(lambda: sent.keys() <= seen.first_seen.keys(), what="the Jobs of the burst")
        await seen.wait(lambda: all(map(_names_its_job, seen.runs())), what="the statuses of the burst")
        return _volley(sent, seen, began)

    async def _lone(self, seen: Sightings, namespace: str) -> list[float]:
        """Runs applied one after the other, each once everything rests."""
        found = []
        for number in range(self.lone):
            at = time.monotonic()
            job = await self._apply(namespace, f"lone-{number}")
            await seen.wait(lambda: job in seen.first_seen, what="the Job of a lone run")  # noqa: B023 -- waited for in the turn
            found.append(seen.first_seen[job] - at)
            await self._rest(seen)
        return found

    async def _apply(self, namespace: str, name: str) -> str:
        """Create a run; the name that its Job will have."""
        body = {
            "apiVersion": wellknown.API_VERSION,
            "kind": wellknown.RUN_KIND,
            "metadata": {"name": name},
            "spec": {"configRef": {"name": CONFIG["metadata"]["name"]}, "parameters": {"table": "iris"}},
        }
        stored = await self.api.create(RUNS, namespace, body)
        return job_base_name(name, stored["metadata"]["uid"])

    async def _bare(
        self, objects: list[tuple[Object, Object]], namespace: str
    ) -> tuple[Volley, list[float], dict[str, float]]:
        """Create copies of the same ConfigMaps and Jobs directly, at once and one by one."""
        async with Sightings(self.api, namespace) as seen:
            sent: dict[str, float] = {}
            before, began = self._cpu(), time.monotonic()

            async def create(number: int) -> None:
                at = time.monotonic()
                sent[await self._create(objects[number], namespace)] = at

            await _all_at_once(create, len(objects))
            await seen.wait(lambda: sent.keys() <= seen.first_seen.keys(), what="the bare Jobs")
            volley, cpu = _volley(sent, seen, began), _difference(before, self._cpu())
            await self._rest(seen)
            return volley, await self._bare_lone(objects[: self.lone], seen, namespace), cpu

    async def _bare_lone(self, objects: list[tuple[Object, Object]], seen: Sightings, namespace: str) -> list[float]:
        found = []
        for pair in objects:
            at = time.monotonic()
            name = await self._create((_renamed(pair[0]), _renamed(pair[1])), namespace)
            await seen.wait(lambda: name in seen.first_seen, what="a bare Job")  # noqa: B023 -- waited for in the turn
            found.append(seen.first_seen[name] - at)
            await self._rest(seen)
        return found

    async def _create(self, pair: tuple[Object, Object], namespace: str) -> str:
        config_map, job = pair
        await self.api.create(CONFIG_MAPS, namespace, config_map)
        await self.api.create(JOBS, namespace, job)
        return str(job["metadata"]["name"])

    async def _objects(self, seen: Sightings, namespace: str) -> list[tuple[Object, Object]]:
        """What the burst made, as somebody else would create it."""
        found = []
        for job in seen.jobs():
            config_map = await self.api.get(CONFIG_MAPS, namespace, job["metadata"]["name"])
            found.append((_bare_copy(config_map, "v1", "ConfigMap"), _bare_copy(job, "batch/v1", "Job")))
        return found

    async def _events(self, seen: Sightings) -> tuple[int, ...]:
        lengths = []
        for run in seen.runs():
            metadata = run["metadata"]
            workflow = run_workflow_id(RunRef.model_validate(metadata))
            description = await self.temporal.get_workflow_handle(workflow).describe()
            lengths.append(description.raw_description.workflow_execution_info.history_length)
        return tuple(lengths)

    async def _rest(self, seen: Sightings) -> None:
        """Every Job has its Pod, and a moment has passed."""
        await seen.wait(
            lambda: all(job.get("status", {}).get("active") for job in seen.jobs()), what="the Pods of the Jobs"
        )
        await asyncio.sleep(REST_SECONDS)

    async def _remove(self, seen: Sightings) -> None:
        """Delete the runs as a person would, and wait until their workflows have closed; the rest ends with the servers."""
        for run in seen.runs():
            metadata = run["metadata"]
            await self.api.delete(RUNS, metadata["namespace"], metadata["name"], uid=metadata["uid"])
        await until(self._has_no_open_workflow, what="the workflows of deleted runs to close")
        await seen.wait(lambda: not seen.jobs(), what="the Jobs of deleted runs to go")
        await asyncio.sleep(REST_SECONDS)

    async def _has_no_open_workflow(self) -> bool:
        return (await self.temporal.count_workflows("ExecutionStatus = 'Running'")).count == 0

    def _cpu(self) -> dict[str, float]:
        return {program.name: program.cpu_seconds() for program in self.programs}


CONFIG: dict[str, Any] = {  # Any: a manifest
    "apiVersion": wellknown.API_VERSION,
    "kind": wellknown.CONFIG_KIND,
    "metadata": {"name": "iris"},
    "spec": {
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
"""The config of the demo: storages of realistic size, our runner's image."""


async def _all_at_once(act: Callable[[int], Awaitable[None]], count: int) -> None:
    numbers = iter(range(count))

    async def applier() -> None:
        for number in numbers:
            await act(number)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(APPLIERS):
            tasks.create_task(applier())


async def until(question: Callable[[], Awaitable[bool]], *, what: str) -> None:
    """Ask until it is so. Raises TooSlow."""
    deadline = time.monotonic() + REST_LIMIT
    while not await question():
        if time.monotonic() > deadline:
            raise TooSlow(f"waited {REST_LIMIT:.0f} s for {what}")
        await asyncio.sleep(0.2)


def _volley(sent: dict[str, float], seen: Sightings, began: float) -> Volley:
    latencies = tuple(seen.first_seen[name] - at for name, at in sent.items())
    return Volley(latencies, max(seen.first_seen[name] for name in sent) - began)


def _names_its_job(run: Object) -> bool:
    return bool((run.get("status") or {}).get("jobStatus"))


def _difference(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: after[name] - seconds for name, seconds in before.items()}


def _bare_copy(item: Object, version: str, kind: str) -> Object:
    """The object as it was sent, without an owner, which would not be there, and out of the worker's sight."""
    metadata = item["metadata"]
    kept = {
        "name": metadata["name"],
        "labels": {**metadata["labels"], wellknown.LABEL_MANAGED_BY: "somebody"},
        "annotations": {wellknown.ANNOTATION_RUN: metadata["annotations"][wellknown.ANNOTATION_RUN]},
    }
    copy = {key: value for key, value in item.items() if key in ("data", "immutable", "spec")}
    if kind == "Job":
        copy["spec"] = _as_sent(item["spec"])
    return {"apiVersion": version, "kind": kind, "metadata": kept, **copy}


def _as_sent(spec: Object) -> Object:
    """A Job's spec without the selector and the labels that the API server adds."""
    template = spec["template"]
    labels = {key: value for key, value in template["metadata"]["labels"].items() if not _is_of_the_server(key)}
    labels[wellknown.LABEL_MANAGED_BY] = "somebody"
    metadata = {"labels": labels, "annotations": template["metadata"].get("annotations", {})}
    kept = {key: value for key, value in spec.items() if key not in ("selector", "template")}
    return {**kept, "template": {"metadata": metadata, "spec": template["spec"]}}


def _is_of_the_server(label: str) -> bool:
    return label in ("controller-uid", "job-name") or label.startswith("batch.kubernetes.io/")


def _renamed(item: Object) -> Object:
    metadata = item["metadata"]
    return {**item, "metadata": {**metadata, "name": f"{metadata['name']}-l"}}
