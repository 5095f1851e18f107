"""`python -m campaigns.faults.storm`: hundreds of runs with real records while everything is killed
at random; then the account.

Shim, worker, Temporal server, API server and controllers are killed with SIGKILL; so are
containers, and the node with all of its containers. The node is played, but its containers are real
processes of the built-in runner, which read and write real files. With `--earlier COMMIT`, shim and
worker are upgraded from that version and rolled back to it meanwhile, in any order.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any  # JSON

from aiohttp import web
from temporalio.client import Client
from temporalio.service import RPCError

from campaigns.faults.duplicates import Duplicate, container_duplicates, is_launch, job_duplicates
from campaigns.faults.page import PAGE, folder_for, machine, publish
from campaigns.faults.recorder import Traces
from campaigns.faults.runner_node import Disk, RunnerNode
from campaigns.faults.servers import Servers
from campaigns.faults.users import create_config, create_run
from campaigns.faults.world import ROOT, Installation, World, world
from inferrun import wellknown
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import AlreadyExists, KubeError, NotFound
from inferrun.kube.objects import RUNS, Object
from inferrun.names import job_base_name

NAMESPACE = "storm"
ROWS = 200
BACKOFF_LIMIT = 10
REQUEST_SECONDS = 0.2
"""How long the model thinks about a request, so that containers can be killed in the middle."""

VICTIMS = {
    "container": 10,
    "worker": 6,
    "shim": 5,
    "node": 1,
    "temporal": 2,
    "kube-apiserver": 1,
    "kube-controller-manager": 1,
}
"""What is killed, and how often in proportion to the others."""

ROLLOUTS = {"shim's version": 5, "worker's version": 5}
"""What is replaced by the other version, and how often in proportion to the victims."""

TERMINAL = ("Succeeded", "Failed")
LEASE_WRITES = "patch leases"
POLL_SECONDS = 1.0

LEFT_OVER_SECONDS = 180.0
"""Maximum time until the sweep has ended the workflows of deleted runs. It does so after it has
seen them twice."""


@dataclass(frozen=True)
class Options:
    folder: Path
    runs: int
    seed: int
    storm_seconds: float
    end_seconds: float
    quiet_seconds: float
    slots: int
    commit: str | None
    """The earlier version with which the storm begins."""


@dataclass(frozen=True)
class Planned:
    name: str
    config: str
    cancelled_after: float | None = None
    deleted_after: float | None = None
    timeout_seconds: int | None = None

    @property
    def ends(self) -> set[str]:
        """How it may end, whatever is killed."""
        if self.config == "missing":
            return {"Failed/InputFailed", "Failed/RunnerFailed"}  # the last attempt may be killed
        if self.config == "slow":
            return {"Failed/DeadlineExceeded"}
        allowed = {"Succeeded/Succeeded"}
        allowed |= {"Failed/Cancelled"} if self.cancelled_after is not None else set()
        return allowed | ({"deleted"} if self.deleted_after is not None else set())


@dataclass
class Account:
    """What the storm led to. `problems` are violations of what is promised."""

    options: Options
    kills: Counter[str] = field(default_factory=Counter)
    accepted: int = 0
    figures: dict[str, object] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What is permitted, but deserves an explanation."""

    def expect(self, what: str, found: object, wanted: object) -> None:
        self.figures[what] = found
        if found != wanted:
            self.problems.append(f"{what}: {found} instead of {wanted}")


def plan(count: int, dice: random.Random) -> list[Planned]:
    """Mostly runs that succeed; some are cancelled or deleted at any moment, reach their deadline,
    or cannot succeed."""
    planned = []
    for number in range(count):
        name, kind = f"c{number:05d}q-storm", dice.random()
        moment = dice.uniform(0, 20)
        if kind < 0.76:
            planned.append(Planned(name, "sums"))
        elif kind < 0.84:
            planned.append(Planned(name, "sums", cancelled_after=moment))
        elif kind < 0.92:
            planned.append(Planned(name, "sums", deleted_after=moment))
        elif kind < 0.96:
            planned.append(Planned(name, "slow", timeout_seconds=5))
        else:
            planned.append(Planned(name, "missing"))
    return planned


class Storm:
    """One storm in one namespace."""

    def __init__(
        self,
        ground: World,
        installation: Installation,
        options: Options,
        *,
        model: str,
        earlier: Path | None,
    ) -> None:
        self._ground = ground
        self._installation = installation
        self._options = options
        self._model = model
        self._earlier = earlier
        self._dice = random.Random(options.seed)  # noqa: S311 -- a storm can be repeated
        self._disk = Disk(options.folder)
        self._servers = Servers(ground.plane, options.folder)
        self._node: RunnerNode | None = None
        self._node_task: asyncio.Task[None] | None = None
        self._account = Account(options)
        self._planned = plan(options.runs, random.Random(options.seed))  # noqa: S311

    async def run(self) -> Account:
        """Submit the runs during the storm, wait for their ends, and draw up the account."""
        node_api = await connect(kubeconfig=self._ground.plane.kubeconfig)
        keeping = asyncio.create_task(self._servers.keep_running())
        try:
            self._start_node(node_api)
            await self._prepare()
            started = time.monotonic()
            async with asyncio.TaskGroup() as tasks:
                storm = tasks.create_task(self._kill_at_random(node_api))
                users = [
                    tasks.create_task(self._use(one, number))
                    for number, one in enumerate(self._planned)
                ]
                await storm
                self._say("the storm is over")
                for program in self._installation.programs:
                    if program.checkout != ROOT:
                        program.replace(ROOT)
                del users
            await self._until_all_ended()
            self._account.figures["Seconds from the first run to the last end"] = round(
                time.monotonic() - started
            )
            await self._check_quiet()
            await self._draw_up()
        finally:
            background = [keeping, *([self._node_task] if self._node_task is not None else [])]
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await node_api.close()
            self._servers.close()
        return self._account

    async def _prepare(self) -> None:
        claim = self._disk.claim("data")
        (claim / "rows.jsonl").write_text("".join(f"[{row}, 0.5]\n" for row in range(ROWS)))
        for name, path, model in (
            ("sums", "rows.jsonl", "sums"),
            ("slow", "rows.jsonl", "slow"),
            ("missing", "missing.jsonl", "sums"),
        ):
            storage = {
                "input": {"file": {"claimName": "data", "path": path, "format": "jsonl"}},
                "output": {"file": {"claimName": "data", "path": "out"}},
            }
            kserve = {
                "modelName": model,
                "modelUrl": f"{self._model}/v2/models/{model}/infer",
                "modelVersion": "v2",
            }
            limit = 1 if name == "missing" else BACKOFF_LIMIT
            spec = {"kserve": kserve, "storage": storage, "backoffLimit": limit}
            await create_config(self._ground.api, NAMESPACE, name, **spec)

    async def _use(self, planned: Planned, number: int) -> None:
        """Create a run in the course of the storm, and cancel or delete it if that is planned."""
        await asyncio.sleep(number / len(self._planned) * self._options.storm_seconds * 0.8)
        limit: dict[str, Any] = (
            {} if planned.timeout_seconds is None else {"timeoutSeconds": planned.timeout_seconds}
        )
        api, name, config = self._ground.api, planned.name, planned.config
        with suppress(AlreadyExists):  # after a lost response
            await _insist(lambda: create_run(api, NAMESPACE, name, config=config, **limit))
        self._account.accepted += 1
        if planned.cancelled_after is not None:
            await asyncio.sleep(planned.cancelled_after)
            annotations = {wellknown.ANNOTATION_CANCEL_REQUESTED: "true"}
            body = {"metadata": {"annotations": annotations}}
            await _insist(lambda: self._ground.api.patch(RUNS, NAMESPACE, planned.name, body))
        if planned.deleted_after is not None:
            await asyncio.sleep(planned.deleted_after)
            with suppress(NotFound):
                found = await _insist(lambda: self._ground.api.get(RUNS, NAMESPACE, planned.name))
                uid = found["metadata"]["uid"]
                await _insist(
                    lambda: self._ground.api.delete(RUNS, NAMESPACE, planned.name, uid=uid)
                )

    async def _kill_at_random(self, node_api: KubeClient) -> None:
        until = time.monotonic() + self._options.storm_seconds
        victims = VICTIMS | (ROLLOUTS if self._earlier else {})
        while time.monotonic() < until:
            await asyncio.sleep(self._dice.uniform(0.5, 4))
            [victim] = self._dice.choices(list(victims), weights=list(victims.values()))
            if await self._kill(victim, node_api):
                self._account.kills[victim] += 1

    async def _kill(self, victim: str, node_api: KubeClient) -> bool:
        if victim == "container":
            return self._node is not None and self._node.kill_container(self._dice)
        if victim in ("shim", "worker"):
            (self._installation.shim if victim == "shim" else self._installation.worker).kill()
            return True
        if victim in ROLLOUTS and self._earlier is not None:
            program = (
                self._installation.shim if victim == "shim's version" else self._installation.worker
            )
            program.replace(ROOT if program.checkout == self._earlier else self._earlier)
            return True
        if victim == "node":
            await self._restart_node(node_api)
            return True
        await self._servers.kill(victim, down_seconds=self._dice.uniform(0, 3))
        return True

    def _start_node(self, api: KubeClient) -> None:
        self._node = RunnerNode(api, name="storm-node", disk=self._disk, slots=self._options.slots)
        self._node_task = asyncio.create_task(self._node.run())

    async def _restart_node(self, api: KubeClient) -> None:
        if self._node is None or self._node_task is None:
            return
        self._node_task.cancel()
        self._node.lose_power()
        await asyncio.gather(self._node_task, return_exceptions=True)
        await asyncio.sleep(self._dice.uniform(0, 5))
        self._start_node(api)

    async def _until_all_ended(self) -> None:
        deadline = time.monotonic() + self._options.end_seconds
        while open_ones := self._open():
            if time.monotonic() > deadline:
                self._account.problems.append(f"not ended: {', '.join(open_ones[:10])}")
                return
            self._say(f"{len(open_ones)} runs have not ended")
            await asyncio.sleep(5)

    def _open(self) -> list[str]:
        return sorted(
            name
            for (namespace, name), run in self._ground.recorder.runs.items()
            if namespace == NAMESPACE and (run.get("status") or {}).get("phase") not in TERMINAL
        )

    async def _check_quiet(self) -> None:
        """No component of ours writes anything once nothing changes, apart from renewing the Lease.

        The sweep ends the workflows of runs that were deleted while no shim saw it; that belongs to
        the storm.
        """
        deadline = time.monotonic() + LEFT_OVER_SECONDS
        while await _open_workflows(self._ground.temporal) and time.monotonic() < deadline:  # noqa: ASYNC110 -- another process ends them
            await asyncio.sleep(1)
        await asyncio.sleep(15)  # the Jobs are marked, and Events written, after the status
        before, since = self._versions(), time.time()
        self._say(f"{self._options.quiet_seconds:.0f} quiet seconds")
        await asyncio.sleep(self._options.quiet_seconds)
        calls = [does for at, does in self._installation.faults.timed_calls() if at >= since]
        self._account.figures["Quiet seconds observed"] = round(self._options.quiet_seconds)
        writes = Counter(does for does in calls if does != LEASE_WRITES)
        self._account.expect("Writes by shim and worker in them", dict(writes), {})
        self._account.figures["Renewals of the shim's Lease in them"] = calls.count(LEASE_WRITES)
        changed = [key for key, version in self._versions().items() if before.get(key) != version]
        self._account.expect("Runs, configs, Jobs and ConfigMaps that changed in them", changed, [])

    def _versions(self) -> dict[tuple[str, str, str], str]:
        recorder = self._ground.recorder
        informers = {
            "run": recorder.runs,
            "config": recorder.configs,
            "Job": recorder.jobs,
            "map": recorder.config_maps,
        }
        return {
            (kind, *key): str(item["metadata"]["resourceVersion"])
            for kind, informer in informers.items()
            for key, item in informer.items()
            if key[0] == NAMESPACE
        }

    async def _draw_up(self) -> None:
        account, recorder = self._account, self._ground.recorder
        account.expect("Runs accepted", account.accepted, len(self._planned))
        ends = [self._end_of(one) for one in self._planned]
        account.outcomes.update(ends)
        account.expect(
            "Runs ended or deleted by their users",
            sum(end != "open" for end in ends),
            len(self._planned),
        )
        wrong = [
            f"{one.name} {end}"
            for one, end in zip(self._planned, ends, strict=True)
            if end not in one.ends
        ]
        account.expect("Runs that ended otherwise than without kills", wrong, [])
        traces = [recorder.traces(one.name[:7]) for one in self._planned]
        changed = sum(len(statuses) > 1 for one in traces for statuses in one.terminal.values())
        account.expect("Runs whose terminal status changed", changed, 0)
        self._count_jobs(traces)
        self._count_containers(traces)
        self._count_records()
        account.expect("Open workflows", await _open_workflows(self._ground.temporal), 0)
        account.expect("Jobs of ended runs without a time to live", self._unmarked(), 0)
        living = [
            pod
            for _, pod in recorder.pods.items()
            if (pod.get("status") or {}).get("phase") in ("Pending", "Running")
        ]
        account.expect("Pods that have not ended", len(living), 0)

    def _end_of(self, planned: Planned) -> str:
        run = self._ground.recorder.runs.get(NAMESPACE, planned.name)
        if run is None:
            return "deleted" if planned.deleted_after is not None else "lost"
        status = run.get("status") or {}
        is_ended = status.get("phase") in TERMINAL
        return f"{status['phase']}/{status.get('reason')}" if is_ended else "open"

    def _count_jobs(self, traces: Iterable[Traces]) -> None:
        """Jobs per launch. A verification is not a launch: it may have a second Job, with which it
        is final."""
        account, jobs = self._account, [item for one in traces for item in one.jobs.items()]
        account.figures["Jobs of launches"] = sum(
            len(uids) for (_, launch), uids in jobs if is_launch(launch)
        )
        account.figures["Jobs that verified an output"] = sum(
            len(uids) for (_, number), uids in jobs if not is_launch(number)
        )
        found: dict[str, list[Duplicate]] = {}
        for one in traces:
            for (run, launch), uids in one.jobs.items():
                if is_launch(launch):
                    named = f"launch {launch} of {one.runs[run].name if run in one.runs else run}"
                    found[named] = job_duplicates(one.seen_jobs[uid] for uid in uids)
        self._report_duplicates(
            found,
            violation="Launches with more than one started Job",
            other="Launches with a late Job, without a Pod",
        )

    def _count_containers(self, traces: Iterable[Traces]) -> None:
        """Containers per launch. The Job controller repeats a verification whose Pod was killed."""
        account, containers = self._account, self._disk.containers
        pods = [pod for one in traces for pod in one.seen_pods.values()]
        account.figures["Containers of launches"] = sum(
            len(ran) for (_, number), ran in containers.items() if is_launch(number)
        )
        account.figures["Containers that verified an output"] = sum(
            len(ran) for (_, number), ran in containers.items() if not is_launch(number)
        )
        account.figures["Containers killed"] = self._disk.killed_containers
        found = {
            f"launch {launch} of {run}": container_duplicates(ran, pods)
            for (run, launch), ran in containers.items()
            if is_launch(launch)
        }
        self._report_duplicates(
            found,
            violation="Launches with more than one container",
            other="Launches whose Pod Kubernetes created twice",
        )

    def _report_duplicates(
        self, found: Mapping[str, list[Duplicate]], *, violation: str, other: str
    ) -> None:
        """The numbers of both kinds of duplicates, and what happened to each of them."""
        named = [(launch, one) for launch, duplicates in found.items() for one in duplicates]
        violations = [f"{launch}: {one.what}" for launch, one in named if one.is_violation]
        self._account.expect(violation, len(violations), 0)
        self._account.problems.extend(violations)
        permitted = [f"{launch}: {one.what}" for launch, one in named if not one.is_violation]
        self._account.figures[other] = len(permitted)
        self._account.remarks.extend(permitted)

    def _count_records(self) -> None:
        """Records of the runs that succeeded, and the predictions that they committed."""
        account, wrong = self._account, []
        succeeded = [
            run
            for (namespace, _), run in self._ground.recorder.runs.items()
            if namespace == NAMESPACE and (run.get("status") or {}).get("phase") == "Succeeded"
        ]
        lines = 0
        for run in succeeded:
            found = self._predictions(run)
            lines += len(found)
            counts = run["status"].get("records") or {}
            is_counted = counts.get("completed") == ROWS and counts.get("total") == ROWS
            if (
                found != [{"index": row, "prediction": row + 0.5} for row in range(ROWS)]
                or not is_counted
            ):
                wrong.append(run["metadata"]["name"])
        account.figures["Records of the runs that succeeded"] = len(succeeded) * ROWS
        account.expect("Predictions that they committed", lines, len(succeeded) * ROWS)
        account.expect(
            "Runs with a missing, wrong or repeated prediction, or other counts", wrong, []
        )

    def _predictions(self, run: Object) -> list[object]:
        metadata = run["metadata"]
        folder = self._disk.claim("data") / "out" / job_base_name(metadata["name"], metadata["uid"])
        if not (folder / "manifest.json").exists():
            return []
        parts = sorted((folder / "predictions").iterdir())
        return [json.loads(line) for part in parts for line in part.read_text().splitlines()]

    def _unmarked(self) -> int:
        return sum(
            (job["metadata"].get("labels") or {}).get(wellknown.LABEL_ENDED) != "true"
            for key, job in self._ground.recorder.jobs.items()
            if key[0] == NAMESPACE
        )

    def _say(self, text: str) -> None:
        sys.stdout.write(f"{text}; killed so far: {dict(self._account.kills)}\n")
        sys.stdout.flush()


async def _insist(request: Callable[[], Awaitable[Object | None]]) -> Object:
    """Repeat a request until the API server answers."""
    while True:
        try:
            return await request() or {}
        except KubeError as error:
            if not error.retryable and not isinstance(error, NotFound | AlreadyExists):
                raise
            if isinstance(error, NotFound | AlreadyExists):
                raise
            await asyncio.sleep(0.5)


async def _open_workflows(temporal: Client) -> int:
    for _ in range(30):
        with suppress(RPCError):
            query = "ExecutionStatus = 'Running'"
            return sum(
                [
                    1
                    async for item in temporal.list_workflows(query)
                    if item.task_queue.startswith(NAMESPACE)
                ]
            )
        await asyncio.sleep(1)
    return -1


@asynccontextmanager
async def model_server() -> AsyncIterator[str]:
    """A V2 model that adds up each row: `sums` takes a moment, `slow` a minute."""

    async def describe(request: web.Request) -> web.StreamResponse:
        tensor = {"name": "in", "datatype": "FP32", "shape": [-1, 2]}
        return web.json_response(
            {
                "name": request.match_info["name"],
                "platform": "test",
                "inputs": [tensor],
                "outputs": [],
            }
        )

    async def infer(request: web.Request) -> web.StreamResponse:
        tensor = (await request.json())["inputs"][0]
        await asyncio.sleep(60 if request.match_info["name"] == "slow" else REQUEST_SECONDS)
        data, width = tensor["data"], tensor["shape"][1]
        flat: list[float] = (
            [value for row in data for value in row] if data and isinstance(data[0], list) else data
        )
        sums = [sum(flat[at : at + width]) for at in range(0, len(flat), width)]
        output = {"name": "out", "datatype": "FP32", "shape": [len(sums), 1], "data": sums}
        return web.json_response({"model_name": request.match_info["name"], "outputs": [output]})

    app = web.Application(client_max_size=2**26)
    app.add_routes(
        [web.get("/v2/models/{name}", describe), web.post("/v2/models/{name}/infer", infer)]
    )
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield site.name
    finally:
        await runner.cleanup()


async def storm(options: Options) -> Account:
    defaults = options.folder / "defaults"
    defaults.mkdir(parents=True, exist_ok=True)
    (defaults / "allowedAddresses").write_text("127.0.0.1")  # where the model server listens
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(world(options.folder, behave=None))
        settings = {"FAULTS_LOG": "all"}
        earlier = stack.enter_context(checkout_of(options.commit, options.folder))
        installed = ground.installation(NAMESPACE, checkout=earlier or ROOT, **settings)
        installation = await stack.enter_async_context(installed)
        address = await stack.enter_async_context(model_server())
        return await Storm(ground, installation, options, model=address, earlier=earlier).run()


@contextmanager
def checkout_of(commit: str | None, folder: Path) -> Iterator[Path | None]:
    """A temporary checkout of a commit of this repository."""
    if commit is None:
        yield None
        return
    checkout, git = folder / "earlier", ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(checkout), commit], check=True)
    try:
        yield checkout
    finally:
        subprocess.run([*git, "remove", "--force", str(checkout)], check=True)


def section_of(account: Account) -> str:
    options = account.options
    lines = [
        f"{machine()}; seed {options.seed}; {options.runs} runs, {options.storm_seconds:.0f} seconds of kills"
        + (f", begun with version {options.commit}." if options.commit else "."),
        "",
        "| Figure | Value |",
        "| --- | --- |",
        *(
            f"| {'Replaced' if victim in ROLLOUTS else 'Killed'}: {victim} | {count} |"
            for victim, count in sorted(account.kills.items())
        ),
        *(f"| {what} | {value or 0} |" for what, value in account.figures.items()),
        *(
            f"| Outcome: {outcome} | {count} |"
            for outcome, count in sorted(account.outcomes.items())
        ),
    ]
    remarks = [
        "",
        "Second Jobs and containers that are permitted:",
        "",
        *(f"- {remark}" for remark in account.remarks),
    ]
    return "\n".join(
        [*lines, "", *_problems(account.problems), *(remarks if account.remarks else [])]
    )


def _problems(problems: Iterable[str]) -> list[str]:
    found = [f"- {problem}" for problem in problems]
    return (
        ["What was promised and did not hold:", "", *found]
        if found
        else ["Everything that is promised held."]
    )


def main() -> int:
    """Play a storm; the exit code is 0 if everything that is promised held."""
    parser = argparse.ArgumentParser(prog="campaigns.faults.storm", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="number of runs (default: 200)")
    parser.add_argument(
        "--seed", type=int, default=1, help="which kills at which moments (default: 1)"
    )
    parser.add_argument(
        "--seconds", type=float, default=180, help="how long the storm lasts (default: 180)"
    )
    parser.add_argument(
        "--end",
        type=float,
        default=900,
        help="seconds until every run must have ended (default: 900)",
    )
    parser.add_argument(
        "--quiet", type=float, default=600, help="quiet seconds that are observed (default: 600)"
    )
    parser.add_argument("--slots", type=int, default=8, help="containers at a time (default: 8)")
    parser.add_argument(
        "--earlier",
        help="commit of a version that the storm upgrades and rolls back to (default: none)",
    )
    parser.add_argument(
        "--keep", type=Path, help="folder for data and logs (default: a temporary one)"
    )
    parser.add_argument("--record", action="store_true", help=f"write the account to {PAGE.name}")
    given = parser.parse_args()
    with folder_for("storm", given.keep) as folder:
        options = Options(
            folder,
            given.runs,
            given.seed,
            given.seconds,
            given.end,
            given.quiet,
            given.slots,
            given.earlier,
        )
        account = asyncio.run(storm(options))
    publish("upgrade" if given.earlier else "storm", section_of(account), is_recorded=given.record)
    return 1 if account.problems else 0


if __name__ == "__main__":
    sys.exit(main())
