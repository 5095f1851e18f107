"""Access to runs through the API server: a run is its InferenceRun."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from inferrun import wellknown
from inferrun.client.errors import (
    AccessDenied,
    ConfigNotFound,
    RequestMismatch,
    RunEnded,
    RunNotFound,
    kubernetes_errors,
)
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, KubeError
from inferrun.kube.objects import CONFIGS, RUNS, Object, uid_of
from inferrun.resources import InferenceConfig, InferenceRun, parse_config, parse_run
from inferrun.submission import Submission
from inferrun.suggestions import did_you_mean

OUTAGE_SECONDS: Final = 120.0
"""The seconds for which a run is followed although the API server does not respond; it may be
restarting."""

AGAIN_SECONDS: Final = 1.0


class KubernetesRuns:
    """The runs of a cluster."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api

    async def start(self, submission: Submission, *, name: str) -> InferenceRun:
        """Create the InferenceRun of a submission. Raises ConfigNotFound: a run would wait for its
        config, perhaps forever."""
        metadata = {
            "name": name,
            "namespace": submission.namespace,
            "labels": submission.labels or {},
        }
        run = parse_run({"metadata": metadata, "spec": submission.run_spec()})
        try:
            await self.config(run.config_namespace, run.config_name)
        except AccessDenied:
            pass  # only the shim can tell whether it exists, and whether the run may use it
        except ConfigNotFound as missing:
            try:
                # a repeated request finds its run without its config, too
                await self.get(submission.namespace, name)
            except RunNotFound:
                hint = ""
                # whoever may read one config need not be allowed to list all
                with suppress(KubeError):
                    found = self._api.items(CONFIGS, run.config_namespace, page_size=100)
                    hint = did_you_mean(
                        run.config_name, [item["metadata"]["name"] async for item in found]
                    )
                raise ConfigNotFound(f"{missing}{hint}", fix=missing.fix) from None
        return await self.create(run)

    async def config(self, namespace: str, name: str) -> InferenceConfig:
        """A config. Raises ConfigNotFound."""
        with kubernetes_errors(f"config {namespace}/{name}", missing=ConfigNotFound):
            return parse_config(await self._api.get(CONFIGS, namespace, name))

    async def create(self, run: InferenceRun) -> InferenceRun:
        """Create an InferenceRun, or find the one of that name if it has the same spec. Raises
        RequestMismatch."""
        namespace, name = run.metadata.namespace, run.metadata.name
        with kubernetes_errors(f"namespace {namespace}"):
            try:
                return parse_run(await self._api.create(RUNS, namespace, body_of(run)))
            except AlreadyExists as error:
                existing = parse_run(await self._api.get(RUNS, namespace, name))
                if existing.spec != run.spec:
                    text = f"run {namespace}/{name} exists already, with another spec"
                    fix = f"choose another name, or delete it: kubectl delete inferencerun -n {namespace} {name}"
                    raise RequestMismatch(text, fix=fix) from error
                return existing

    async def get(self, namespace: str, name: str) -> InferenceRun:
        """The run as it is. Raises RunNotFound."""
        with kubernetes_errors(f"run {namespace}/{name}"):
            return parse_run(await self._api.get(RUNS, namespace, name))

    async def patch(self, run: InferenceRun, change: Object) -> InferenceRun:
        """Change this run, and no other one that has its name by now."""
        namespace, name = run.metadata.namespace, run.metadata.name
        body = {**change, "metadata": {**change.get("metadata", {}), "uid": run.metadata.uid}}
        with kubernetes_errors(f"run {namespace}/{name}"):
            return parse_run(await self._api.patch(RUNS, namespace, name, body))

    async def follow(self, namespace: str, name: str) -> AsyncGenerator[InferenceRun, None]:
        """The run now, and whenever it has changed, until it has ended."""
        with kubernetes_errors(f"run {namespace}/{name}"):
            run = await self.get(namespace, name)
            yield run
            while not run.status.is_terminal:
                async for changed in self._changes(run):
                    run = changed
                    yield run
                    if run.status.is_terminal:
                        return
                found = await self._look_again(run)
                if found != run:
                    run = found
                    yield run

    async def _changes(self, run: InferenceRun) -> AsyncGenerator[InferenceRun, None]:
        """The changes that one watch sees, until it ends or breaks."""
        known, selector = run.metadata, f"metadata.name={run.metadata.name}"
        try:
            changes = self._api.watch(
                RUNS, known.namespace, version=known.resource_version, fieldSelector=selector
            )
            async for kind, item in changes:
                if kind == "DELETED":
                    raise _deleted(run)
                if kind in ("ADDED", "MODIFIED"):
                    yield parse_run(item)
        except KubeError as error:
            if not error.retryable:
                raise
            await asyncio.sleep(AGAIN_SECONDS)

    async def _look_again(self, run: InferenceRun) -> InferenceRun:
        """The run as it is after a watch has ended, which may be because the API server does not
        respond for a while."""
        deadline = time.monotonic() + OUTAGE_SECONDS
        while True:
            try:
                found = await self._api.find(RUNS, run.metadata.namespace, run.metadata.name)
            except KubeError as error:
                if not error.retryable or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                if found is None or uid_of(found) != run.metadata.uid:
                    raise _deleted(run)
                return parse_run(found)

    async def get_open(self, namespace: str, name: str) -> InferenceRun:
        """The run as it is. Raises RunNotFound, and RunEnded if it has ended."""
        run = await self.get(namespace, name)
        if run.status.is_terminal:
            raise RunEnded(f"run {run.ref} has ended: {run.status.phase} ({run.status.reason})")
        return run

    async def cancel(self, namespace: str, name: str) -> None:
        """Annotate the run; its workflow ends it."""
        run = await self.get_open(namespace, name)
        if run.spec.is_schedule:
            text = f"{run.ref} is a schedule"
            fix = f"stop it with inferrun suspend -n {namespace} {name}, or cancel one of its runs"
            raise RunEnded(text, fix=fix)
        await self.patch(
            run, {"metadata": {"annotations": {wellknown.ANNOTATION_CANCEL_REQUESTED: "true"}}}
        )


def body_of(resource: InferenceConfig | InferenceRun) -> Object:
    """The resource as a user creates it: without its status, and with the metadata that users
    choose."""
    metadata = resource.metadata
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": metadata.name,
            "labels": metadata.labels,
            "annotations": metadata.annotations,
        },
        "spec": resource.spec.to_manifest(),
    }


def _deleted(run: InferenceRun) -> RunNotFound:
    return RunNotFound(f"run {run.ref} was deleted before it ended")
