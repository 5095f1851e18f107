"""A node that is cut off while a run is in progress there, and that comes back."""

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import install
from tests.e2e.file_world import RECORDS, UNHURRIED, committed_in, prepare
from tests.e2e.stage import Space, Stage, processes_of, run, until

pytestmark = [pytest.mark.alone, pytest.mark.thorough]

NODE_LOST_SECONDS = 10
NOTICED_SECONDS = 90
"""Within which the control plane declares a node unreachable: 40 to 50 seconds after its last sign
of life."""


@pytest.fixture
def impatient(stage: Stage) -> Iterator[Stage]:
    """The installation with a short nodeLostSeconds, on a node that works again after the test."""
    install(stage, f"settings.nodeLostSeconds={NODE_LOST_SECONDS}")
    try:
        yield stage
    finally:
        stage.control_component("start", "kubelet")
        node = stage.kubectl("get", "nodes", "-o", "name").strip()
        stage.kubectl("wait", node, "--for=condition=Ready", "--timeout=90s", seconds=100)
        install(stage)


def test_a_run_on_a_node_that_is_cut_off_continues_in_another_launch(
    space: Space, impatient: Stage
) -> None:
    """The node cannot be reached, but its containers run on and write, until it is back."""
    prepare(space, backoff_limit=0, requests=UNHURRIED)
    space.apply(
        run("stranded", "ours", timeoutSeconds=600),
        run("idle", "actor", parameters={"sleep": "600"}),
    )
    for name in ("stranded", "idle"):
        space.wait_for(name, phase="Running", seconds=120)
    first = {name: space.status(name)["jobStatus"]["name"] for name in ("stranded", "idle")}
    [pod] = space.items("pods", f"batch.kubernetes.io/job-name={first['idle']}")
    assert processes_of(impatient, space.name, pod["metadata"]["name"])

    impatient.control_component("stop", "kubelet")

    def is_unreachable() -> bool:
        return space.status("idle").get("reason") in ("NodeUnreachable", "RetryBackoff")

    until(
        is_unreachable,
        seconds=NOTICED_SECONDS,
        what="the node is unreachable",
        now=lambda: space.phase("idle"),
    )
    space.wait_for("idle", phase="Pending", reason="RetryBackoff", seconds=NODE_LOST_SECONDS + 80)
    status = space.status("idle")
    [lost] = status["attempts"]
    assert (lost["reason"], lost["attempt"], status["attempt"]) == ("NodeLost", 1, 1)
    assert lost["podName"] == pod["metadata"]["name"]
    assert lost["nodeName"] == pod["spec"]["nodeName"]
    until(
        lambda: space.get("pod", pod["metadata"]["name"]) is None,
        seconds=60,
        what="the lost Pod is deleted",
    )
    until(
        lambda: space.status("idle")["jobStatus"]["name"] != first["idle"],
        seconds=90,
        what="another launch is created",
    )

    impatient.control_component("start", "kubelet")

    space.wait_for("idle", phase="Running", seconds=120)
    assert space.status("idle")["attempt"] == 1
    ended = space.wait_for("stranded", phase="Succeeded", seconds=150)
    assert ended["attempt"] == 1
    assert [item["index"] for item in committed_in(space)] == list(range(RECORDS))
