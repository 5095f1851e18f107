"""A real Prometheus with the rules of the chart, compiled from its Go module, that scrapes
processes of this machine."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from campaigns.benchmarks.processes import Launch, serve
from tests.unit.deploy.helm.test_values import CHART
from tools.devcluster.binaries import PROMETHEUS, build_missing, program_dir
from tools.devcluster.probes import http_ok

SCRAPE_SECONDS = 5
START_SECONDS = 60

Json = dict[str, Any]  # Any: JSON


@dataclass(frozen=True)
class Prometheus:
    """The running server."""

    url: str

    async def series(self, query: str) -> list[Mapping[str, str]]:
        """The labels of what a query finds now, without what is zero. Raises httpx.HTTPStatusError
        for an invalid query."""
        found = await self._get("query", query=query)
        return [one["metric"] for one in found["result"] if float(one["value"][1])]

    async def alerts(self) -> list[Json]:
        """Those that are pending or fire."""
        found: list[Json] = (await self._get("alerts"))["alerts"]
        return found

    async def _get(self, path: str, **parameters: str) -> Json:
        answer = await asyncio.to_thread(
            httpx.get, f"{self.url}/api/v1/{path}", params=parameters, timeout=30
        )
        answer.raise_for_status()
        data: Json = answer.json()["data"]
        return data


@contextmanager
def prometheus(
    folder: Path, *, health: Mapping[str, int], sdk: Mapping[str, int]
) -> Iterator[Prometheus]:
    """Scrape these ports, by the program's name, as the chart's PodMonitor has it. What it stores
    is in `folder`."""
    build_missing(modules=(PROMETHEUS,))
    jobs = {"inferrun": health, "inferrun-sdk": sdk}
    scraped = [
        {
            "job_name": job,
            "honor_labels": job == "inferrun",
            "static_configs": [
                {"targets": [f"127.0.0.1:{port}"], "labels": {"pod": pod}}
                for pod, port in ports.items()
            ],
        }
        for job, ports in jobs.items()
    ]
    every = {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": f"{SCRAPE_SECONDS}s"}
    settings = {
        "global": every,
        "rule_files": [str(CHART / "alerts.yaml")],
        "scrape_configs": scraped,
    }
    (folder / "prometheus.json").write_text(json.dumps(settings))
    program = program_dir(PROMETHEUS) / "prometheus"

    def at(port: int) -> Launch:
        files = [
            f"--config.file={folder / 'prometheus.json'}",
            f"--storage.tsdb.path={folder / 'series'}",
        ]
        url = f"http://127.0.0.1:{port}/-/ready"
        return Launch(
            [str(program), *files, f"--web.listen-address=127.0.0.1:{port}"], http_ok(url)
        )

    server, port = serve("prometheus", at, logs=folder, environment={}, seconds=START_SECONDS)
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        server.stop()
