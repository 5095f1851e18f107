"""A real API server with the definitions, and a separate namespace for each module.

The cluster is the development cluster of this checkout, or the one whose kubeconfig
INFERRUN_TEST_KUBECONFIG names; a kubeconfig that lies around is never used.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

import httpx
import pytest

from tests.integration.crds.server import (
    NotServed,
    Rejected,
    Server,
    apply_definitions,
    call,
    connected,
)

ESTABLISHED_WITHIN_SECONDS = 90

T = TypeVar("T")


@pytest.fixture(scope="session")
def client(kubeconfig: Path) -> Iterator[httpx.Client]:
    with connected(kubeconfig) as made:
        yield made


@pytest.fixture(scope="session")
def definitions(client: httpx.Client) -> None:
    """The two generated definitions, installed in the API server."""
    apply_definitions(client)


@pytest.fixture(scope="module")
def namespace(client: httpx.Client) -> Iterator[str]:
    """A namespace that is deleted after the module."""
    name = f"crds-{token_hex(4)}"
    call(client, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    call(client, "DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def server(client: httpx.Client, namespace: str, definitions: None) -> Server:
    made = Server(client, namespace=namespace)
    wait_until(
        lambda: _serves_our_rules(made), what="the API server to use the current definitions"
    )
    return made


def _serves_our_rules(server: Server) -> bool:
    """Wait until the API server enforces the updated definition, so that no older version is
    tested."""
    try:
        server.try_out("InferenceConfig", {"storage": {}})
        server.try_out("InferenceRun", {"configRef": {"name": "a"}, "timeZone": "Etc/UTC"})
    except Rejected as refusal:
        return "only together with schedule" in refusal.message
    except NotServed:
        return False
    return False


def wait_until(answer: Callable[[], T], *, what: str) -> T:
    """Return the first answer that is true; fail the test after a deadline."""
    deadline = time.monotonic() + ESTABLISHED_WITHIN_SECONDS
    while not (given := answer()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {ESTABLISHED_WITHIN_SECONDS} s for {what}")
        time.sleep(0.1)
    return given
