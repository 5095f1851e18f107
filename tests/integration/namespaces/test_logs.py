"""The logs of shim and worker, as processes."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS
from inferrun.names import run_workflow_id
from inferrun.resources import parse_run
from tests.integration.namespaces.installation import CreateNamespace, NewRelease, create_run, has_job, running
from tests.integration.shim.conftest import Until

pytestmark = pytest.mark.thorough


def lines_of(folder: Path, component: str) -> list[dict[str, Any]]:  # Any: JSON
    text = (folder / f"{component}.log").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


async def test_each_line_about_a_run_names_it_until_the_level_is_raised(
    *, api: KubeClient, new_release: NewRelease, create_namespace: CreateNamespace, until: Until, tmp_path: Path
) -> None:
    system, served = [await create_namespace(name) for name in ("system", "served")]
    settings = tmp_path / "defaults"
    settings.mkdir()
    (settings / "logLevel").write_text("debug")
    release = await new_release(namespace=system, watched=(served,))
    async with running(release, until):
        await create_run(api, served, name="first")
        await until(has_job(api, served, name="first"))
        run = parse_run(await api.get(RUNS, served, "first"))
        fields = {"namespace": served, "run": "first", "workflow": run_workflow_id(run.ref)}
        for component in ("shim", "worker"):
            about = [line for line in lines_of(tmp_path, component) if "first" in json.dumps(line)]
            assert about, component
            assert [line for line in about if not fields.items() <= line.items()] == []
        called = [line for line in about if line["message"] == "activity called"]
        assert "LaunchJob" in {line["activity"] for line in called}, called
        assert {line["attempt"] for line in called} == {1}

        (settings / "logLevel").write_text("error")

        async def is_reloaded() -> bool:
            logs = [lines_of(tmp_path, component) for component in ("shim", "worker")]
            return all(any(line["message"] == "settings reloaded" for line in log) for log in logs)

        await until(is_reloaded)
        await create_run(api, served, name="second")
        await until(has_job(api, served, name="second"))
        assert [
            line for one in ("shim", "worker") for line in lines_of(tmp_path, one) if line.get("run") == "second"
        ] == []
