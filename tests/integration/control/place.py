"""A namespace behind the proxy in which the tests launch runs."""

import json
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from activities.launch_job import JobLauncher
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIG_MAPS, CONFIGS, JOBS, RUNS, Object
from inferrun.names import job_base_name
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun, parse_run
from tests.integration.control.pods import FILE, IMAGE, NOWHERE, Launched, launch, launched
from tests.integration.control.proxy import Json
from workflows.messages import LaunchResult, LaunchState

LEFT_ALONE = {"krateo.io/paused": "true"}
"""The annotation of runs and configs that an installed product ignores."""


def base_of(run: InferenceRun) -> str:
    """The name of the run's ConfigMap and of its first Job."""
    return job_base_name(run.metadata.name, run.metadata.uid)


@dataclass(frozen=True)
class Place:
    """What a test does there, by itself and through an activity."""

    api: KubeClient
    namespace: str
    launcher: JobLauncher

    async def config(self, **spec: Any) -> str:
        """Create a config with an image that no node has; its name."""
        name = f"config-{token_hex(4)}"
        storage: Json = {"input": {"own": {}}, "output": {"own": {}}}
        full = {"storage": storage, "image": IMAGE, "imagePullPolicy": "Never", **spec}
        await self.create("InferenceConfig", name, full)
        return name

    async def run(
        self,
        config: str | None = None,
        *,
        status: Json | None = None,
        annotations: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> InferenceRun:
        """Create a run of that config, or of a new one."""
        name, reference = f"run-{token_hex(4)}", {"name": config or await self.config()}
        noted = {"annotations": annotations or {}, "labels": labels or {}}
        stored = await self.create("InferenceRun", name, {"configRef": reference, **spec}, **noted)
        if status is not None:
            stored = await self.api.patch(
                RUNS, self.namespace, name, {"status": status}, sub="status"
            )
        return parse_run(stored)

    async def built_in(self, **spec: Any) -> InferenceRun:
        """Create a run of the built-in runner, which reads and writes files."""
        files = {"input": FILE, "output": FILE}
        return await self.run(await self.config(storage=files, **{"resources": NOWHERE, **spec}))

    async def create(
        self,
        kind: str,
        name: str,
        spec: Json,
        *,
        annotations: dict[str, str] | None = None,
        **metadata: Any,
    ) -> Object:
        """Create a run or a config."""
        about = {"name": name, "annotations": {**LEFT_ALONE, **(annotations or {})}, **metadata}
        body = {"apiVersion": "ai.krateo.io/v1", "kind": kind, "metadata": about, "spec": spec}
        return await self.api.create(
            RUNS if kind == "InferenceRun" else CONFIGS, self.namespace, body
        )

    async def launch(self, run: InferenceRun, **changes: Any) -> LaunchResult:
        """Launch the run."""
        return await launch(self.launcher, run, **changes)

    async def waits(self, run: InferenceRun, reason: Reason, **changes: Any) -> LaunchResult:
        """Launch the run, which waits for that reason."""
        result = await self.launch(run, **changes)
        assert (result.state, result.reason) == (LaunchState.WAITING, reason), result.message
        return result

    async def refuses(self, run: InferenceRun, reason: Reason, **changes: Any) -> LaunchResult:
        """Launch the run, which is refused for that reason."""
        result = await self.launch(run, **changes)
        assert (result.state, result.reason) == (LaunchState.REFUSED, reason), result.message
        return result

    async def launched(self, run: InferenceRun) -> Launched:
        """Launch the run, which gets a Job."""
        return await launched(self.api, self.launcher, run)

    async def edit(self, run: InferenceRun, **spec: Any) -> None:
        """Edit the run's spec."""
        await self.api.patch(RUNS, self.namespace, run.metadata.name, {"spec": spec})

    async def edit_config(self, config: str, **spec: Any) -> None:
        """Edit a config's spec."""
        await self.api.patch(CONFIGS, self.namespace, config, {"spec": spec})

    async def write_status(self, run: InferenceRun, status: Json) -> None:
        """Write the run's status."""
        await self.api.patch(
            RUNS, self.namespace, run.metadata.name, {"status": status}, sub="status"
        )

    async def delete(self, run: InferenceRun) -> None:
        """Delete the run."""
        await self.api.delete(RUNS, self.namespace, run.metadata.name, uid=run.metadata.uid)

    async def delete_config(self, config: str) -> None:
        """Delete a config."""
        stored = await self.api.get(CONFIGS, self.namespace, config)
        await self.api.delete(CONFIGS, self.namespace, config, uid=stored["metadata"]["uid"])

    async def status(self, run: InferenceRun) -> Json:
        """The run's status."""
        return dict(
            (await self.api.get(RUNS, self.namespace, run.metadata.name)).get("status") or {}
        )

    async def job(self, name: str) -> Object:
        """A Job."""
        return await self.api.get(JOBS, self.namespace, name)

    async def config_map(self, run: InferenceRun) -> Object:
        """The run's ConfigMap."""
        return await self.api.get(CONFIG_MAPS, self.namespace, base_of(run))

    async def contract(self, run: InferenceRun) -> Json:
        """The contract in the run's ConfigMap."""
        found: Json = json.loads((await self.config_map(run))["data"]["contract.json"])
        return found

    async def delete_config_map(self, run: InferenceRun) -> Object:
        """Delete the run's ConfigMap, and give what it was."""
        stored = await self.config_map(run)
        await self.api.delete(
            CONFIG_MAPS, self.namespace, base_of(run), uid=stored["metadata"]["uid"]
        )
        return stored
