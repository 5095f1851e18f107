"""What can and cannot change: an outcome, the spec of a started run, and whether a run is a
schedule."""

from collections.abc import Callable
from secrets import token_hex
from typing import Any

import pytest

from tests.integration.crds.server import Json, Rejected, Server

RUN = "InferenceRun"
OUTCOME = {
    "phase": "Succeeded",
    "reason": "Succeeded",
    "message": "150 of 150 records predicted",
    "completionTime": "2026-11-21T08:00:00Z",
    "exitCode": 0,
    "records": {"total": 150, "completed": 150, "failed": 0},
    "delivery": "ExactlyOnce",
    "output": {"location": "data/out", "manifest": "data/out/manifest.json", "sha256": "ab"},
}
CHANGES = {
    "phase": "Failed",
    "reason": "OutputFailed",
    "completionTime": "2026-11-21T09:00:00Z",
    "exitCode": 5,
    "records": {"total": 150, "completed": 149, "failed": 1},
    "delivery": "AtLeastOnce",
    "output": {"location": "elsewhere"},
}

UNREAD: Json = {"observedGeneration": -1}
"""What the definition adds to a status."""


@pytest.fixture
def create(server: Server) -> Callable[..., str]:
    def made(*, status: Json | None = None, **spec: Any) -> str:  # Any: free-form JSON
        name = f"run-{token_hex(4)}"
        server.create(RUN, {"configRef": {"name": "iris"}, **spec}, name=name)
        if status is not None:
            server.patch_status(RUN, name, status)
        return name

    return made


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_outcome_cannot_be_removed_changed_or_added_to(
    server: Server, create: Callable[..., str], phase: str
) -> None:
    outcome = {**OUTCOME, "phase": phase}
    name = create(status=outcome)
    stored = server.get(RUN, name)
    whole = {key: value for key, value in stored.items() if key != "status"}
    for replaced in ({**whole, "status": None}, whole):
        with pytest.raises(Rejected, match="final"):
            server.replace_status(RUN, replaced)
    changes: list[Json | None] = [None, *({field: None} for field in CHANGES)]
    changes += [{field: value} for field, value in CHANGES.items() if value != phase]
    for change in changes:
        with pytest.raises(Rejected, match=rf"status\.phase is {phase}, which is final"):
            server.patch_status(RUN, name, change)
    assert server.get(RUN, name)["status"] == {**outcome, **UNREAD}
    server.patch_status(
        RUN, name, {"message": "corrected wording", "workflow": {"url": "http://ui/x"}}
    )
    for field in ("records", "exitCode", "output"):
        name = create(status={key: value for key, value in outcome.items() if key != field})
        with pytest.raises(Rejected, match="final"):
            server.patch_status(RUN, name, {field: outcome[field]})


def test_the_status_of_an_unfinished_run_may_change(
    server: Server, create: Callable[..., str]
) -> None:
    name = create(status={"phase": "Running", "records": {"completed": 5}})
    server.patch_status(RUN, name, {"phase": "Pending", "records": None})
    server.patch_status(RUN, name, OUTCOME)
    assert server.get(RUN, name)["status"] == {**OUTCOME, **UNREAD}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("configRef", {"name": "other"}),
        ("configRef", {"namespace": "other"}),
        ("parameters", {"a": "2"}),
        ("parameters", {"b": "1"}),
        ("parameters", None),
        ("backoffLimit", 5),
        ("pendingTimeoutSeconds", 5),
    ],
)
def test_the_spec_of_a_started_run_cannot_change(
    server: Server, create: Callable[..., str], field: str, value: Any
) -> None:
    name = create(parameters={"a": "1"}, status={"phase": "Running", "contract": "e30="})
    allowed = "allowed are changes of suspend and timeoutSeconds until the run ends"
    with pytest.raises(
        Rejected,
        match=f"{field} cannot change: the run has started.*{allowed}.*metadata.generateName",
    ):
        server.patch_spec(RUN, name, {field: value})


def test_all_fields_that_cannot_change_are_named(
    server: Server, create: Callable[..., str]
) -> None:
    name = create(parameters={"a": "1"}, status={"phase": "Running", "contract": "e30="})
    with pytest.raises(
        Rejected, match="parameters, backoffLimit cannot change: the run has started"
    ):
        server.patch_spec(
            RUN, name, {"backoffLimit": 4, "parameters": {"a": "2"}, "timeoutSeconds": 7}
        )


def test_the_timeout_and_the_suspension_of_a_started_run_may_change(
    server: Server, create: Callable[..., str]
) -> None:
    name = create(timeoutSeconds=60, status={"phase": "Running", "contract": "e30="})
    assert server.patch_spec(RUN, name, {"timeoutSeconds": 120})["spec"]["timeoutSeconds"] == 120
    assert "timeoutSeconds" not in server.patch_spec(RUN, name, {"timeoutSeconds": None})["spec"]
    assert server.patch_spec(RUN, name, {"suspend": True})["spec"]["suspend"] is True


@pytest.mark.parametrize(
    "status", [{}, {"contract": "e30="}], ids=["before its launch", "after its launch"]
)
@pytest.mark.parametrize(("field", "value"), [("timeoutSeconds", 120), ("suspend", True)])
def test_no_field_of_a_finished_run_takes_effect_any_more(
    server: Server, create: Callable[..., str], status: Json, *, field: str, value: object
) -> None:
    name = create(status={**OUTCOME, **status})
    with pytest.raises(
        Rejected,
        match=rf"{field} cannot change: the run has ended.*Succeeded; allowed is a new run",
    ):
        server.patch_spec(RUN, name, {field: value})


def test_a_waiting_run_may_be_corrected(server: Server, create: Callable[..., str]) -> None:
    name = create(parameters={"a": "1"}, status={"phase": "Pending"})
    stored = server.patch_spec(
        RUN, name, {"configRef": {"name": "other"}, "parameters": {"a": None}, "backoffLimit": 0}
    )
    assert stored["spec"] == {"configRef": {"name": "other"}, "parameters": {}, "backoffLimit": 0}


@pytest.mark.parametrize(
    ("before", "after", "said"), [(None, "@daily", "added"), ("@daily", None, "removed")]
)
def test_a_run_stays_a_schedule_or_none(
    server: Server, create: Callable[..., str], before: str | None, after: str | None, said: str
) -> None:
    name = create(**({"schedule": before} if before else {}))
    with pytest.raises(Rejected, match=f'schedule "@daily" cannot be {said}'):
        server.patch_spec(RUN, name, {"schedule": after})


def test_the_fields_of_a_schedule_may_change(server: Server, create: Callable[..., str]) -> None:
    name = create(schedule="@daily", status={"phase": "Scheduled"})
    changes = {
        "schedule": "0 9 * * MON",
        "timeZone": "Europe/Rome",
        "suspend": True,
        "concurrencyPolicy": "Allow",
        "parameters": {"a": "1"},
    }
    assert server.patch_spec(RUN, name, changes)["spec"] == {
        "configRef": {"name": "iris"},
        **changes,
    }


def test_a_schedule_with_a_contract_from_the_krateo_controller_may_change(
    server: Server, create: Callable[..., str]
) -> None:
    name = create(schedule="@daily", status={"contract": "e30="})
    assert server.patch_spec(RUN, name, {"parameters": {"a": "1"}})["spec"]["parameters"] == {
        "a": "1"
    }


def test_the_api_server_keeps_one_owner_of_a_status_and_not_one_of_each_field(
    server: Server, create: Callable[..., str]
) -> None:
    name = create(status={"phase": "Pending", "records": {"completed": 0}})
    server.patch_status(RUN, name, {"phase": "Running", "records": {"completed": 5}, "attempt": 1})
    stored = server.get(RUN, name)
    owned = [
        entry["fieldsV1"]
        for entry in stored["metadata"]["managedFields"]
        if entry.get("subresource") == "status"
    ]
    assert owned == [{"f:status": {}}]
    assert stored["status"] == {
        "phase": "Running",
        "records": {"completed": 5},
        "attempt": 1,
        **UNREAD,
    }
