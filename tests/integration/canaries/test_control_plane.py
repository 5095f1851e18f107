"""Nothing that shim and worker write contains a header value, a token, or the user information or
query of a URL.

Canaries are planted in configs and in what Pods report. Searched are the statuses of runs and
configs, Events, Jobs, the logs of both processes, what they serve over HTTP, the metrics of the API
server and of Temporal, which name what they were asked for, and Temporal: its histories and its
whole database. The run's ConfigMap is the one place for a contract.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from campaigns.benchmarks.burst.product import MODULES, START_SECONDS, is_ready, start_program
from campaigns.benchmarks.control_plane import ControlPlane, control_plane
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import Invalid
from inferrun.kube.objects import CONFIGS, EVENTS, JOBS, NAMESPACES, PODS, RUNS, Object, Resource
from inferrun.reasons import Reason
from inferrun.runner_report import RunnerResult, dump_result
from tests.definitions import install_definitions
from tests.integration.conftest import CLUSTER_FILES

pytestmark = pytest.mark.thorough

CANARY = b"c4nary"
NAMESPACE = "canaries"

HANDLER: Object = {
    "path": "/x?token=c4nary",
    "headers": ["Authorization: Bearer c4nary", "X-Api-Key: c4nary"],
    "headersFrom": [{"name": "X-Other", "secretKeyRef": {"name": "handler", "key": "key"}}],
    "endpointRef": {"name": "handler"},
}
MODEL = {"modelUrl": "http://user:c4nary@model/v2/models/a/infer?key=c4nary"}
END: Object = {"krateo": {"api": HANDLER}}

DATABASE: Object = {"credentialsRef": {"name": "database"}, "query": "select 1"}

INVALID: dict[str, Object] = {
    "header": {
        "storage": {
            "input": {"krateo": {"api": {**HANDLER, "headers": ["X: c4nary\r\nY: c4nary"]}}},
            "output": END,
        }
    },
    "framing": {
        "storage": {
            "input": {"krateo": {"api": {**HANDLER, "headers": ["Host: c4nary"]}}},
            "output": END,
        }
    },
    "token": {
        "storage": {"input": {"krateo": {"api": {**HANDLER, "token": "c4nary"}}}, "output": END}
    },
    "url": {"kserve": {"modelUrl": "ftp://user:c4nary@host/x?c4nary"}},
    "urls": {"modelUrl": "http://other:c4nary@host/x?c4nary"},
    "http": {
        "storage": {"input": {"http": {"url": "http://user:c4nary@host/x?c4nary"}}, "output": END}
    },
    "http-token": {
        "storage": {"input": {"http": {"url": "http://host/", "token": "c4nary"}}, "output": END}
    },
    "sql": {"storage": {"input": END, "output": {"sql": "postgresql://user:c4nary@host/db"}}},
    "sql-password": {
        "storage": {"input": {"sql": {**DATABASE, "password": "c4nary"}}, "output": END}
    },
    "sql-secret": {
        "storage": {
            "input": {"sql": {**DATABASE, "credentialsRef": {"name": "d", "password": "c4nary"}}},
            "output": END,
        }
    },
    "s3": {
        "storage": {
            "input": {"s3": {"bucket": "data", "path": "p", "secretAccessKey": "c4nary"}},
            "output": END,
        }
    },
    "s3-url": {
        "storage": {
            "input": {
                "s3": {"bucket": "data", "path": "p", "endpoint": "http://user:c4nary@host?c4nary"}
            },
            "output": END,
        }
    },
    "bundle": {"caBundle": {"configMapRef": {"name": "http://user:c4nary@host/"}}},
    "threshold": {"errorThreshold": "https://user:c4nary@host/"},
}
OTHERS: dict[str, Object] = {
    "http-sql": {
        "storage": {
            "input": {
                "http": {
                    "url": "https://host/rows.jsonl?signature=c4nary",
                    "credentialsRef": {"name": "web"},
                }
            },
            "output": {"sql": {"credentialsRef": {"name": "database"}, "table": "results"}},
        },
        "caBundle": {"configMapRef": {"name": "authorities"}},
        "errorThreshold": "5%",
        "canaryRecords": 10,
    },
    "own-store": {
        "image": "own:1",
        "storage": {
            "input": {
                "own": {"at": "https://user:c4nary@host/?key=c4nary", "secretAccessKey": "c4nary"}
            },
            "output": {"own": {"nested": [{"clientSecret": "c4nary"}]}},
        },
    },
}
"""Valid configs with other stores."""


@dataclass(frozen=True)
class Stage:
    api: KubeClient
    folder: Path
    served: dict[str, str]
    """The addresses at which anybody in the cluster can read what a program says of itself, by
    title."""

    async def until_ended(self, name: str) -> Object:
        async with asyncio.timeout(60):
            while True:
                run = await self.api.get(RUNS, NAMESPACE, name)
                if (run.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                    return run
                await asyncio.sleep(0.2)

    async def pod_of(self, name: str) -> Object:
        async with asyncio.timeout(60):
            while True:
                pods = (await self.api.list(PODS, NAMESPACE))["items"]
                for pod in pods:
                    if pod["metadata"]["annotations"].get("inferrun.dev/run") == name:
                        return dict(pod)
                await asyncio.sleep(0.2)

    async def end_pod(self, name: str, *, code: int, message: str) -> None:
        """Report the end of a run's Pod as a kubelet would."""
        pod = await self.pod_of(name)
        now = "2026-11-21T00:00:00Z"
        terminated = {"exitCode": code, "message": message, "startedAt": now, "finishedAt": now}
        status = {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [
                {
                    "name": "inference",
                    "image": "x",
                    "imageID": "x",
                    "ready": False,
                    "restartCount": 0,
                    "state": {"terminated": terminated},
                }
            ],
        }
        await self.api.patch(
            PODS, NAMESPACE, pod["metadata"]["name"], {"status": status}, sub="status"
        )

    async def is_reported(self, config: str) -> bool:
        """Whether the config and its run say that the config is invalid."""
        stored = await self.api.get(CONFIGS, NAMESPACE, config)
        run = await self.api.get(RUNS, NAMESPACE, f"run-{config}")
        return (
            bool(stored.get("status"))
            and (run.get("status") or {}).get("reason") == "ConfigNotReady"
        )

    async def written(self) -> dict[str, bytes]:
        """What our processes have written, by place."""
        found = {}
        for title, resource, part in (
            ("run", RUNS, "status"),
            ("config", CONFIGS, "status"),
            ("event", EVENTS, ""),
            ("job", JOBS, ""),
        ):
            for item in await self.all_of(resource):
                value = item.get(part, {}) if part else item
                found[f"{title} {item['metadata']['name']}"] = json.dumps(value).encode()
        for path in self.folder.rglob("*"):
            if path.is_file() and (
                path.name.startswith("temporal.db") or path.name in ("shim.log", "worker.log")
            ):
                found[path.name] = path.read_bytes()
        async with httpx.AsyncClient(timeout=60) as client:
            for title, url in self.served.items():
                found[title] = (await client.get(url)).content
        found["api server metrics"] = (await self.api.text("/metrics")).encode()
        return found

    async def all_of(self, resource: Resource) -> list[Object]:
        items: list[Object] = (await self.api.list(resource, NAMESPACE))["items"]
        return items


@pytest.fixture
def planted(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ControlPlane, Path, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("canaries")
    with control_plane(folder, binaries=CLUSTER_FILES / "bin") as plane, ExitStack() as ends:
        asyncio.run(install(plane))
        served = {"temporal metrics": plane.temporal_metrics}
        for kind in MODULES:
            program, port = start_program(folder, plane, kind, identity="benchmark")
            ends.callback(program.stop)
            program.wait_until(is_ready(port), seconds=START_SECONDS)
            served |= {
                f"{kind} {path}": f"http://127.0.0.1:{port}/{path}"
                for path in ("livez", "readyz", "metrics")
            }
        yield plane, folder, served


@pytest.fixture
async def stage(planted: tuple[ControlPlane, Path, dict[str, str]]) -> AsyncIterator[Stage]:
    plane, folder, served = planted
    api = await connect(kubeconfig=plane.kubeconfig)
    yield Stage(api, folder, served)
    await api.close()


async def install(plane: ControlPlane) -> None:
    api = await connect(kubeconfig=plane.kubeconfig)
    try:
        await install_definitions(api)
    finally:
        await api.close()


def manifest(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "ai.krateo.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def test_nothing_that_shim_and_worker_write_contains_a_canary(stage: Stage) -> None:
    api = stage.api
    await api.create(NAMESPACES, None, {"metadata": {"name": NAMESPACE}})
    await create_config(api, "good", {})
    rejected = [
        name for name, changes in INVALID.items() if not await is_stored(api, name, changes)
    ]
    for name in ("succeeds", "fails", "cancelled", "deleted"):
        await create_run(api, name, config="good")
    for name in INVALID.keys() - set(rejected):
        await create_run(api, f"run-{name}", config=name)

    for name, changes in OTHERS.items():
        await create_config(api, name, changes)
        await create_run(api, f"run-{name}", config=name)
    retry = {"configRef": {"name": "good"}, "retryOf": "run-own-store", "dryRun": True}
    await api.create(RUNS, NAMESPACE, manifest("InferenceRun", "retries", retry))

    success = RunnerResult(reason=Reason.SUCCEEDED, message="3 of 3 records predicted")
    failure = RunnerResult(
        reason=Reason.INPUT_FAILED, message="a.jsonl line 2 contains a string", retryable=False
    )
    await stage.end_pod("succeeds", code=0, message=dump_result(success))
    await stage.end_pod("fails", code=3, message=dump_result(failure))
    await stage.pod_of("cancelled")
    await api.patch(
        RUNS,
        NAMESPACE,
        "cancelled",
        {"metadata": {"annotations": {"inferrun.dev/cancel-requested": "true"}}},
    )
    deleted = await api.get(RUNS, NAMESPACE, "deleted")
    await api.delete(RUNS, NAMESPACE, "deleted", uid=deleted["metadata"]["uid"])

    for name in OTHERS:
        await stage.end_pod(f"run-{name}", code=3, message=dump_result(failure))
        await stage.until_ended(f"run-{name}")
    phases = [
        (await stage.until_ended(name))["status"]["phase"]
        for name in ("succeeds", "fails", "cancelled")
    ]
    assert phases == ["Succeeded", "Failed", "Failed"]
    await until_reported(stage, [name for name in INVALID if name not in rejected])
    written = await stage.written()
    assert {
        "shim.log",
        "worker.log",
        "temporal.db",
        "run succeeds",
        "config good",
    } <= written.keys()
    assert b"inferencerun/canaries/succeeds" in written["temporal.db"] + written.get(
        "temporal.db-wal", b""
    )
    assert written["worker livez"] == written["shim livez"] == b"ok\n"
    assert b"workflow_success" in written["temporal metrics"], (
        "metrics that know nothing of the runs prove nothing"
    )
    assert b"inferenceruns" in written["api server metrics"]
    assert [place for place, content in written.items() if CANARY in content] == []
    ready = (await api.get(CONFIGS, NAMESPACE, "good"))["status"]["conditions"][0]["message"]
    assert (
        "headers.0 (Authorization) can be seen by everyone who may read this config; use headersFrom"
        in ready
    )


async def until_reported(stage: Stage, configs: list[str]) -> None:
    async with asyncio.timeout(90):
        for name in configs:
            while not await stage.is_reported(name):  # noqa: ASYNC110 -- the API server has no event for it
                await asyncio.sleep(0.2)


async def create_config(api: KubeClient, name: str, changes: Object) -> None:
    spec = {"kserve": MODEL, "storage": {"input": END, "output": END}, "backoffLimit": 0, **changes}
    await api.create(CONFIGS, NAMESPACE, manifest("InferenceConfig", name, spec))


async def is_stored(api: KubeClient, name: str, changes: Object) -> bool:
    """Whether the API server accepts the config; its rejection is shown to whoever applies it."""
    try:
        await create_config(api, name, changes)
    except Invalid:
        return False
    return True


async def create_run(api: KubeClient, name: str, *, config: str) -> None:
    await api.create(
        RUNS, NAMESPACE, manifest("InferenceRun", name, {"configRef": {"name": config}})
    )
