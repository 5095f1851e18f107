"""Attacks by the image of a run."""

import asyncio
import json
import re
import unicodedata

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client

from tests.e2e.stage import Object, Space, run

CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)")
"""As CommonMark defines it: what is between two runs of equally many backticks."""

FORGED = json.dumps(
    {
        "status": "Succeeded",
        "delivery": "ExactlyOnce",
        "records": {"total": 9, "completed": 9, "failed": 0},
    }
)


def texts(value: object) -> list[str]:
    """Every text in a JSON value."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


def is_plain(text: str) -> bool:
    """One line, without control, format or bidirectional characters."""
    return not any(unicodedata.category(letter) in ("Cc", "Cf") for letter in text)


def outside_code(markdown: str) -> str:
    """What a renderer does not take literally."""
    return CODE_SPAN.sub("", markdown)


async def details_of(caller: Client, workflow_id: str) -> str:
    """The Markdown that Temporal's UI renders for a workflow."""
    handle = caller.get_workflow_handle(workflow_id)
    found = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return str(found.current_details)


def everything_about(space: Space, name: str) -> list[str]:
    """The texts in the status and in the Events of a run."""
    status: Object = space.status(name)
    status.pop("contract", None)
    events = [
        item["message"] for item in space.items("events") if item["involvedObject"]["name"] == name
    ]
    return [*texts(status), *events]


def test_a_custom_image_cannot_claim_to_have_written_exactly_once(tenant: Space) -> None:
    """A custom image cannot claim exactly-once delivery."""
    tenant.apply(run("claim", "actor", parameters={"say": FORGED}))
    status = tenant.wait_for("claim", phase="Succeeded", seconds=60)
    assert status["delivery"] == "Unknown"


@pytest.mark.parametrize(
    "message",
    [
        "\x1b[31mred\x1b[0m\x07",
        "first\nsecond\r\nthird",
        "left\u202eright\u2066",
        "[click](http://attacker.invalid) ![x](http://attacker.invalid/x.png)",
        "`rm -rf /`; $(touch /tmp/x) && curl attacker.invalid",
        "<script>alert(1)</script>",
        "x" * 4000,
        "\u0000\u0001\u0002",
    ],
    ids=["ansi", "lines", "bidi", "markdown", "shell", "html", "long", "control"],
)
async def test_a_message_of_a_container_is_data(
    tenant: Space, caller: Client, message: str
) -> None:
    """A container's termination message is treated as data."""
    tenant.apply(run("talk", "actor", parameters={"say": message, "exit": "4"}))
    status = await asyncio.to_thread(tenant.wait_for, "talk", phase="Failed", seconds=90)
    found = everything_about(tenant, "talk")
    assert found
    rendered = await details_of(caller, status["workflow"]["id"])
    for text in (*found, rendered):
        assert is_plain(text), repr(text)
        assert len(text) <= 4096
    assert f"**{status['phase']}**" in rendered
    assert not set(outside_code(rendered)) & set("<>[]!`$&")


@pytest.mark.parametrize("code", ["0", "5"])
def test_a_huge_log_is_not_read(tenant: Space, code: str) -> None:
    """A very large log is not read as a whole."""
    tenant.apply(run("loud", "actor", parameters={"lines": "30000", "exit": code, "sleep": "2"}))
    status = tenant.wait_for("loud", phase="Succeeded" if code == "0" else "Failed", seconds=120)
    assert status["exitCode"] == int(code)
    assert "records" not in status
    assert "padding" not in json.dumps(status)


@pytest.mark.parametrize("code", ["255", "137", "143", "77"])
def test_any_exit_code_is_a_failure_with_that_code(tenant: Space, code: str) -> None:
    """Any exit code other than 0 is a failure that states the code."""
    tenant.apply(run("exit", "actor", parameters={"exit": code}))
    status = tenant.wait_for("exit", phase="Failed", seconds=90)
    assert status["exitCode"] == int(code)


def test_a_container_that_ignores_sigterm_ends_at_its_deadline(tenant: Space) -> None:
    """A container that ignores SIGTERM is stopped at its deadline."""
    tenant.apply(
        run("stubborn", "actor", timeoutSeconds=4, parameters={"sleep": "600", "ignore": "yes"})
    )
    tenant.wait_for("stubborn", phase="Failed", reason="DeadlineExceeded", seconds=60)


def test_a_container_has_no_token_and_no_privileges(tenant: Space) -> None:
    """Containers have no service account token and no privileges."""
    tenant.apply(run("probe", "actor", parameters={"probe": "yes", "sleep": "3"}))
    tenant.wait_for("probe", phase="Succeeded", seconds=60)
    [pod] = tenant.items("pods")
    seen = json.loads(tenant.kubectl("logs", pod["metadata"]["name"]).splitlines()[0])
    assert seen["token"] is False
    assert seen["user"] != 0
    assert seen["capabilities"] == 0
    assert seen["new privileges"] is False
