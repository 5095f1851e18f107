"""The real programs on a control plane of their own, with a played node and a Prometheus that
scrapes them."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from campaigns.benchmarks.processes import free_port
from campaigns.faults.node import Behave
from campaigns.faults.servers import Servers
from campaigns.faults.world import Program, World, create_namespace, until, world
from tests.integration.alerts.prometheus import Prometheus, prometheus
from tests.integration.chart.conftest import Render
from tests.integration.namespaces.installation import MODULES, Release, install
from tests.unit.deploy.helm.test_values import CHART

LIMIT_SECONDS = 120
"""Within which a failure must be named."""

QUIET_SECONDS = 300
"""For the start of the programs, and until what happened meanwhile is out of the rules' windows."""

SYSTEM = "inferrun-system"


@dataclass(frozen=True)
class Named:
    """What names a failure: an alert, or the panel of a dashboard, with these labels."""

    alert: str = ""
    panel: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    state: str = "firing"

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in self.labels.items())
        return f"{self.alert or self.panel} {{{shown}}}"


@dataclass(frozen=True)
class Ground:
    """The servers, the two programs, which are restarted when they end, and the Prometheus."""

    world: World
    servers: Servers
    programs: Mapping[str, Program]
    prometheus: Prometheus

    async def until_quiet(self) -> None:
        """Wait until both programs have been scraped and no critical alert fires or is pending."""

        async def has_no_critical_alert() -> bool:
            scraped = await self.prometheus.series(
                "inferrun_leader == 1 or temporal_worker_task_slots_available"
            )
            critical = [
                one
                for one in await self.prometheus.alerts()
                if one["labels"]["severity"] == "critical"
            ]
            return len({one["pod"] for one in scraped}) == len(self.programs) and not critical

        await until("no critical alert fires", has_no_critical_alert, seconds=QUIET_SECONDS)

    async def is_named(self, by: Named) -> bool:
        """Whether the alert is in this state, or the panel shows something with these labels."""
        if by.alert:
            alerts = await self.prometheus.alerts()
            found = [
                one["labels"]
                for one in alerts
                if one["labels"]["alertname"] == by.alert and one["state"] == by.state
            ]
        else:
            found = await self.prometheus.series(panels()[by.panel])
        return any(by.labels.items() <= labels.items() for labels in found)

    async def all_named(self, expected: Sequence[Named], *, since: float) -> None:
        """Wait until each of them is there, and print after how long. Raises AssertionError with
        those that are late."""
        missing = list(expected)
        while missing:
            for one in list(missing):
                if await self.is_named(one):
                    sys.stdout.write(f"after {time.monotonic() - since:.0f} s: {one}\n")
                    missing.remove(one)
            late = time.monotonic() > since + LIMIT_SECONDS
            assert not (late and missing), (
                f"not within {LIMIT_SECONDS} s: {', '.join(map(str, missing))}"
            )
            await asyncio.sleep(1)


def panels(namespace: str = "team") -> dict[str, str]:
    """The query of each panel by dashboard and title, as Grafana asks it with these variables."""
    found = {}
    for name in ("platform", "namespace"):
        for panel in json.loads(
            (CHART / "dashboards" / f"inferrun-{name}.json").read_text(encoding="utf-8")
        )["panels"]:
            query = (
                panel["targets"][0]["expr"]
                .replace("$__rate_interval", "1m")
                .replace('"$config"', '".*"')
            )
            found[f"{name}: {panel['title']}"] = query.replace('"$namespace"', f'"{namespace}"')
    return found


@asynccontextmanager
async def ground(
    folder: Path, render: Render, *, behave: Behave, namespaces: Sequence[str]
) -> AsyncIterator[Ground]:
    """The product, with the permissions that the chart gives it, for these namespaces, which are
    created."""
    async with world(folder, behave=behave) as made:
        for namespace in (SYSTEM, *namespaces):
            await create_namespace(made.api, namespace)
        release = await install(
            made.api, made.plane, render, namespace=SYSTEM, watched=namespaces, folder=folder
        )
        health = {name: free_port() for name in MODULES}
        sdk = {name: free_port() for name in MODULES}
        programs = {
            name: _program(release, name, health=health[name], sdk=sdk[name]) for name in MODULES
        }
        tasks = [asyncio.create_task(program.run()) for program in programs.values()]
        servers = Servers(made.plane, folder)
        with ExitStack() as ends:
            ends.callback(servers.close)
            asked = ends.enter_context(prometheus(folder, health=health, sdk=sdk))
            try:
                yield Ground(made, servers, programs, asked)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


def _program(release: Release, name: str, *, health: int, sdk: int) -> Program:
    environment = {
        **release.environment(name, port=health),
        "TEMPORAL_METRICS_PORT": str(sdk),
        "POD_NAME": name,
    }
    command = [sys.executable, "-m", MODULES[name]]
    return Program(name, command, environment, release.folder / f"{name}.log")
