"""A played node whose containers are real processes of the built-in runner, with the contract and
the claims of their Pods."""

import asyncio
import os
import random
import signal
import sys
import time
from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from campaigns.faults.duplicates import SeenContainer
from campaigns.faults.node import LOST, RETRY_SECONDS, Container, End, PlayedNode, launch_of, run_of
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import CONFIG_MAPS, SECRETS, Object, controller_of

ROOT = Path(__file__).resolve().parents[2]
MOUNT = "/data/"
ENDPOINT = "endpoint-"
GRACE_SECONDS = 10.0
SLOTS = 4


@dataclass
class Disk:
    """What outlives a node that is killed: the claims, and what was counted."""

    folder: Path
    starts: Counter[tuple[str, str]] = field(default_factory=Counter)
    containers: dict[tuple[str, str], list[SeenContainer]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """The processes that were executed, by run and launch."""
    killed_containers: int = 0

    def claim(self, name: str) -> Path:
        path = self.folder / "claims" / name
        path.mkdir(parents=True, exist_ok=True)
        return path


class RunnerNode(PlayedNode):
    """One life of the node, from its start until it is killed: run it as one task. It runs `slots`
    containers at a time."""

    def __init__(self, api: KubeClient, *, name: str, disk: Disk, slots: int) -> None:
        super().__init__(api, name=name, behave=lambda _run, _launch, _verifies: Container())
        self.starts = disk.starts
        self._disk = disk
        self._slots = asyncio.Semaphore(slots)
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    def kill_container(self, dice: random.Random) -> bool:
        """Send SIGKILL to one container; False if there is none."""
        running = [one for one in self._processes.values() if one.returncode is None]
        if running:
            dice.choice(running).send_signal(signal.SIGKILL)
            self._disk.killed_containers += 1
        return bool(running)

    def lose_power(self) -> None:
        """Send SIGKILL to all containers; the caller cancels the node's task before it can report
        that."""
        for process in self._processes.values():
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
        self.stop_playing()

    async def _execute(self, pod: Object, stop: asyncio.Event) -> None:
        async with self._slots:
            await super()._execute(pod, stop)

    async def _until_it_ends(self, pod: Object, _plan: Container, stop: asyncio.Event) -> End:
        if stop.is_set():
            return End(143)
        uid = pod["metadata"]["uid"]
        folder = self._disk.folder / "pods" / uid
        folder.mkdir(parents=True)
        environment = await self._environment(pod, folder)
        if environment is None:
            return LOST
        process = await asyncio.create_subprocess_exec(
            *_command_of(pod),
            cwd=ROOT,
            env=environment,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        self._processes[uid] = process
        executed = SeenContainer(uid, job_uid=controller_of(pod) or "", started=time.monotonic())
        self._disk.containers[run_of(pod), launch_of(pod)].append(executed)
        try:
            code = await _end_of(process, stop)
        finally:
            if process.returncode is None:
                process.kill()
            del self._processes[uid]
        log = folder / "termination-log"
        return End(code if code >= 0 else 128 - code, log.read_text() if log.exists() else "")

    async def _environment(self, pod: Object, folder: Path) -> Mapping[str, str] | None:
        """The container's environment, with the paths of this machine; None if the contract is gone
        with its run."""
        contract = folder / "contract.json"
        text = await self._contract_of(pod)
        if text is None:
            return None
        contract.write_text(text)
        container = pod["spec"]["containers"][0]
        given = {item["name"]: item["value"] for item in container["env"] if "value" in item}
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        mounts = {
            mount["mountPath"].removeprefix(MOUNT): volumes[mount["name"]]["persistentVolumeClaim"][
                "claimName"
            ]
            for mount in container["volumeMounts"]
            if mount["mountPath"].startswith(MOUNT)
        }
        return {
            "PATH": os.environ["PATH"],
            **given,
            "HOME": str(folder),
            "INFERRUN_CONTRACT": str(contract),
            "INFERRUN_TERMINATION_LOG": str(folder / "termination-log"),
            "INFERRUN_SPOOL_DIR": str(folder),
            "INFERRUN_ENDPOINTS_DIR": str(await self._mounted_secrets(pod, folder / "endpoints")),
            **{
                f"INFERRUN_{end.upper()}_DIR": str(self._disk.claim(claim))
                for end, claim in mounts.items()
            },
            "pod_uid": pod["metadata"]["uid"],
        }

    async def _mounted_secrets(self, pod: Object, folder: Path) -> Path:
        """Write the Secrets of the input and the output as the kubelet does."""
        for volume in pod["spec"]["volumes"]:
            if "secret" in volume and volume["name"].startswith(ENDPOINT):
                secret = await self._api.get(
                    SECRETS, pod["metadata"]["namespace"], volume["secret"]["secretName"]
                )
                target = folder / volume["name"].removeprefix(ENDPOINT)
                target.mkdir(parents=True)
                for key, value in secret["data"].items():
                    (target / key).write_bytes(b64decode(value))
        return folder

    async def _contract_of(self, pod: Object) -> str | None:
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        name, namespace = volumes["contract"]["configMap"]["name"], pod["metadata"]["namespace"]
        while True:
            try:
                found = await self._api.get(CONFIG_MAPS, namespace, name)
            except KubeError as error:
                if not error.retryable:
                    return None
                await asyncio.sleep(RETRY_SECONDS)
                continue
            return str(found["data"]["contract.json"])


def _command_of(pod: Object) -> list[str]:
    """The container's command, with the Python of this machine; our image starts the runner without
    one."""
    command = pod["spec"]["containers"][0].get("command") or ["python", "-m", "inferrun_runner"]
    return [sys.executable, *(str(word) for word in command[1:])]


async def _end_of(process: asyncio.subprocess.Process, stop: asyncio.Event) -> int:
    """The exit code; a request to stop sends SIGTERM, and SIGKILL after the grace period."""
    ending, stopping = asyncio.create_task(process.wait()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((ending, stopping), return_when=asyncio.FIRST_COMPLETED)
        if process.returncode is None:
            process.terminate()
            await asyncio.wait((ending,), timeout=GRACE_SECONDS)
        if process.returncode is None:
            process.kill()
        return await ending
    finally:
        stopping.cancel()
        ending.cancel()


@asynccontextmanager
async def runner_node(kubeconfig: Path, *, disk: Disk) -> AsyncIterator[None]:
    """A node of an API server that is never killed."""
    api = await connect(kubeconfig=kubeconfig)
    node = asyncio.create_task(RunnerNode(api, name="node", disk=disk, slots=SLOTS).run())
    try:
        yield
    finally:
        node.cancel()
        await asyncio.gather(node, return_exceptions=True)
        await api.close()
