"""The installed product, a namespace in which an attacker has the role `edit`, and one whose owner
must not notice anything.

Pod Security `restricted` is enforced in both. Nothing is sent to an address that is not this
machine's own.
"""

import json
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from temporalio.client import Client

from campaigns.attacks.report import Outcome, Part, write
from campaigns.attacks.victim import Components, Victim
from campaigns.faults.page import machine
from tests.e2e.conftest import stage
from tests.e2e.stage import Space, Stage, config, until

__all__ = ["stage"]

RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"


def create_namespace(stage: Stage, prefix: str) -> str:
    """A namespace that enforces Pod Security `restricted`."""
    name = f"{prefix}-{uuid.uuid4().hex[:8]}"
    stage.kubectl("create", "namespace", name)
    stage.kubectl("label", "namespace", name, RESTRICTED)
    return name


FIGURES = pytest.StashKey[Path]()
MEASURED_RUNS = 10


def pytest_configure(config: pytest.Config) -> None:
    """One folder for the figures of all test processes."""
    config.stash[FIGURES] = Path(
        os.environ.setdefault("INFERRUN_ATTACK_FIGURES", tempfile.mkdtemp())
    )


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """How the victims fared; with INFERRUN_ATTACK_RECORD, what happened is kept for the page."""
    victims = [
        path.read_text(encoding="utf-8") for path in sorted(config.stash[FIGURES].glob("*.txt"))
    ]
    for text in victims:
        terminalreporter.write_line(text)
    is_worker = hasattr(config, "workerinput")  # of pytest-xdist, which passes its reports on
    if os.environ.get("INFERRUN_ATTACK_RECORD") and not is_worker:
        found = terminalreporter.stats
        outcomes = [
            Outcome(item.nodeid, is_repelled=name == "passed", seconds=round(item.duration, 1))
            for name in ("passed", "failed")
            for item in found.get(name, ())
        ]
        write(Part(outcomes, victims, machine(), has_harm=bool(found.get("error"))))


@pytest.fixture(scope="session", autouse=True)
def victim(stage: Stage, pytestconfig: pytest.Config) -> Iterator[Victim]:
    """Somebody else's namespace, in which runs are started all the time. After the attacks, all of
    them must have started within a second and succeeded, and no component may have been restarted.
    """
    before = Components.read(stage)
    space = Space(stage, create_namespace(stage, "victim"))
    # leaves the node to the attacked runs
    space.apply(config("actor", backoffLimit=0, ttlSecondsAfterFinished=10))
    bystander = Victim(space)
    bystander.start()
    try:
        yield bystander
        until(
            lambda: len(bystander.starts) >= MEASURED_RUNS, seconds=90, what="enough measured runs"
        )
        bystander.stop()
        figures = pytestconfig.stash[FIGURES] / f"{space.name}.txt"
        figures.write_text(bystander.figures, encoding="utf-8")
        bystander.expect_no_harm()
        assert Components.read(stage) == before, "a component was restarted"
    finally:
        bystander.stop()
        stage.kubectl("delete", "namespace", space.name, "--wait=false", check=False)


@pytest.fixture
def tenant(stage: Stage) -> Iterator[Space]:
    """A namespace and what its user, who has the role `edit` in it, can do with kubectl."""
    name = create_namespace(stage, "tenant")
    stage.kubectl("-n", name, "create", "serviceaccount", "user")
    stage.kubectl(
        "-n",
        name,
        "create",
        "rolebinding",
        "user",
        "--clusterrole=edit",
        f"--serviceaccount={name}:user",
    )
    token = stage.kubectl("-n", name, "create", "token", "user", "--duration=1h").strip()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        path.write_text(_kubeconfig(stage, token), encoding="utf-8")
        restricted = Stage(stage.binaries, path, stage.temporal_address, stage.ui_url)
        space = Space(restricted, name)
        space.apply(config("actor", backoffLimit=0))
        try:
            yield space
        finally:
            operator = Space(stage, name)
            operator.kubectl(
                "delete", "inferenceruns", "--all", "--wait=false", check=False, seconds=240
            )
            stage.kubectl("delete", "namespace", name, "--wait=false", check=False)


def _kubeconfig(stage: Stage, token: str) -> str:
    content = yaml.safe_load(stage.kubeconfig.read_text(encoding="utf-8"))
    content["users"] = [
        {"name": user["name"], "user": {"token": token}} for user in content["users"]
    ]
    return json.dumps(content)


@pytest.fixture
async def caller(stage: Stage) -> Client:
    """What anyone with access to the Temporal namespace has."""
    return await Client.connect(stage.temporal_address)
