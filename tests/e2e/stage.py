"""The environment of the end-to-end tests: the development cluster with the product installed from
its chart.

Tests use it like a user, with kubectl, and wait for conditions with a deadline.
"""

import fcntl
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
SYSTEM = "inferrun-system"
ACTOR_IMAGE = "localhost/inferrun-tests/actor:dev"

Object = dict[str, Any]  # Any: Kubernetes objects are arbitrary JSON


@dataclass(frozen=True)
class Stage:
    """A cluster and the programs that access it."""

    binaries: Path
    kubeconfig: Path
    temporal_address: str
    ui_url: str

    def kubectl(
        self, *words: str, given: str | None = None, check: bool = True, seconds: float = 60
    ) -> str:
        """Run kubectl and return its standard output. A failure shows its error output."""
        done = self.try_kubectl(*words, given=given, seconds=seconds)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def try_kubectl(
        self, *words: str, given: str | None = None, seconds: float = 60
    ) -> "subprocess.CompletedProcess[str]":
        """Run kubectl and return its result, even if it failed."""
        return self._run("kubectl", *words, given=given, seconds=seconds)

    def helm(self, *words: str, seconds: float = 180) -> str:
        done = self._run("helm", *words, given=None, seconds=seconds)
        if done.returncode != 0:
            raise AssertionError(f"helm {' '.join(words)}: {done.stderr}{done.stdout}")
        return done.stdout

    def temporal(self, *words: str, seconds: float = 60) -> str:
        done = self._run("temporal", *words, given=None, seconds=seconds)
        if done.returncode != 0:
            raise AssertionError(f"temporal {' '.join(words)}: {done.stderr}")
        return done.stdout

    def control_component(self, action: str, name: str) -> None:
        """Stop or start a component of the cluster, such as `temporal`."""
        command = ["python3", "-m", "tools.devcluster", action, name]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=90
        )
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {done.stderr}{done.stdout}")

    def _run(
        self, program: str, *words: str, given: str | None, seconds: float
    ) -> "subprocess.CompletedProcess[str]":
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "TEMPORAL_ADDRESS": self.temporal_address,
            "HELM_NAMESPACE": SYSTEM,
        }
        return subprocess.run(
            [str(self.binaries / program), *words],
            input=given,
            capture_output=True,
            text=True,
            env=environment,
            timeout=seconds,
            check=False,
        )


@dataclass(frozen=True)
class Space:
    stage: Stage
    name: str

    def kubectl(
        self, *words: str, given: str | None = None, check: bool = True, seconds: float = 60
    ) -> str:
        """Run kubectl in this namespace."""
        return self.stage.kubectl(
            "-n", self.name, *words, given=given, check=check, seconds=seconds
        )

    def get(self, kind: str, name: str) -> Object | None:
        done = self.stage.try_kubectl("-n", self.name, "get", kind, name, "-o", "json")
        if done.returncode != 0 and "NotFound" in done.stderr:
            return None
        assert done.returncode == 0, done.stderr
        found: Object = json.loads(done.stdout)
        return found

    def items(self, kind: str, selector: str = "") -> list[Object]:
        words = ["get", kind, "-o", "json", *(["-l", selector] if selector else [])]
        items: list[Object] = json.loads(self.kubectl(*words))["items"]
        return items

    def apply(self, *manifests: Object, seconds: float = 60) -> None:
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        self.kubectl("apply", "-f", "-", given=given, seconds=seconds)

    def status(self, run: str) -> Object:
        """The status of a run; empty if it has none or does not exist."""
        found = self.get("inferencerun", run)
        status: Object = (found or {}).get("status") or {}
        return status

    def phase(self, run: str) -> str:
        """A run's phase and reason, as `Failed/DeadlineExceeded`."""
        status = self.status(run)
        return f"{status.get('phase', '')}/{status.get('reason', '')}"

    def wait_for(
        self, run: str, *, phase: str, reason: str | None = None, seconds: float = 60
    ) -> Object:
        """Wait for a phase and reason and return the status; fail immediately if the run ends
        differently."""

        def look() -> Object | None:
            status = self.status(run)
            if status.get("phase") == phase and reason in (None, status.get("reason")):
                return status
            has_ended = status.get("phase") in ("Succeeded", "Failed")
            assert not has_ended, (
                f"{run} ended {status['phase']}/{status.get('reason')}: {status.get('message')}"
            )
            return None

        return until(
            look, seconds=seconds, what=f"{run} is {phase}/{reason}", now=lambda: self.phase(run)
        )


def until(
    look: Callable[[], T | None],
    *,
    seconds: float,
    what: str,
    now: Callable[[], object] = lambda: "",
) -> T:
    """Call `look` until it returns something, and return that; after the deadline, fail with the
    current state."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}; current state: {now()}")
        time.sleep(0.3)


def provide_volumes() -> None:
    """Create volumes on the node for the claims of tests, which other processes may do at the same
    time."""
    with (Path(tempfile.gettempdir()) / "inferrun-volumes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(
            ["python3", "-m", "tools.devcluster", "volumes"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )


def kill_9(stage: Stage, namespace: str, pod: str) -> None:
    """Send SIGKILL from the node to every process of a Pod's container."""
    subprocess.run(["kill", "-9", *processes_of(stage, namespace, pod)], check=True)


def processes_of(stage: Stage, namespace: str, pod: str) -> list[str]:
    """The processes of a Pod's container, on the node."""
    path = [
        "-n",
        namespace,
        "get",
        "pod",
        pod,
        "-o",
        "jsonpath={.status.containerStatuses[0].containerID}",
    ]
    container = stage.kubectl(*path).removeprefix("containerd://")
    found = [
        path.parent.name for path in Path("/proc").glob("[0-9]*/cgroup") if container in _text(path)
    ]
    assert found, f"no process of container {container}"
    return found


def _text(path: Path) -> str:
    """A file in /proc; empty if its process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


def attached() -> Stage:
    """The environment created by `make cluster`; variables that are not set are read from its env
    file."""
    values = dict(os.environ)
    env_file = ROOT / ".devcluster" / "env"
    if env_file.is_file():
        found = re.findall(r"^(\w+)=['\"]?(.*?)['\"]?$", env_file.read_text(), flags=re.MULTILINE)
        values = {**values, **dict(found)}
    missing = [
        key for key in ("KUBECONFIG", "INFERRUN_BIN", "TEMPORAL_ADDRESS") if key not in values
    ]
    if missing:
        raise RuntimeError(f"{', '.join(missing)} not set: run `make cluster` first")
    return Stage(
        binaries=Path(values["INFERRUN_BIN"]),
        kubeconfig=Path(values["KUBECONFIG"]),
        temporal_address=values["TEMPORAL_ADDRESS"],
        ui_url=values.get("TEMPORAL_UI_URL", ""),
    )


def config(name: str, **spec: object) -> Object:
    """A config with the actor image, which behaves according to the parameters of a run."""
    storage = {"input": {"mine": {"from": "nowhere"}}, "output": {"mine": {"to": "nowhere"}}}
    defaults: Object = {"image": ACTOR_IMAGE, "storage": storage}
    return {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceConfig",
        "metadata": {"name": name},
        "spec": {**defaults, **spec},
    }


def run(
    name: str, config_name: str, *, parameters: dict[str, str] | None = None, **spec: object
) -> Object:
    body: Object = {"configRef": {"name": config_name}, **spec}
    if parameters:
        body["parameters"] = parameters
    return {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceRun",
        "metadata": {"name": name},
        "spec": body,
    }
