"""Under which terms the shim finds a run."""

from typing import Any

import pytest

from inferrun import wellknown
from operator_shim.run_watch import (
    TO_DELETE,
    UNFINISHED,
    created_by,
    reading,
    sees_change,
    terms_of,
    trim_run,
    unfinished_with,
)
from tests.unit.objects import Json


def run(*, owners: list[Json] | None = None, spec: Json | None = None, **status: Any) -> Json:  # Any: JSON
    metadata = {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "1", "ownerReferences": owners or []}
    return {"metadata": metadata, "spec": {"configRef": {"name": "iris"}, **(spec or {})}, "status": status}


@pytest.mark.parametrize(
    ("item", "terms"),
    [
        (run(), {UNFINISHED, unfinished_with("team", "iris")}),
        (run(phase="Suspended"), {UNFINISHED, unfinished_with("team", "iris")}),
        (
            run(spec={"configRef": {"name": "iris", "namespace": "models"}}, phase="Running"),
            {UNFINISHED, unfinished_with("models", "iris")},
        ),
        (run(spec={"schedule": "@daily"}, phase="Scheduled"), {UNFINISHED}),
        (run(phase="Succeeded"), set()),
        (run(phase="Failed", deleteAfter="2026-11-21T07:00:00Z"), {TO_DELETE}),
        (
            run(owners=[{"kind": wellknown.RUN_KIND, "uid": "s"}, {"kind": "Other", "uid": "o"}], phase="Failed"),
            {created_by("team", "s")},
        ),
        (
            run(phase="Pending", reason="WaitingForRun", inputRun={"name": "nightly"}),
            {UNFINISHED, unfinished_with("team", "iris"), reading("team", "nightly")},
        ),
        (
            run(phase="Pending", reason="JobCreated", inputRun={"name": "nightly"}),
            {UNFINISHED, unfinished_with("team", "iris")},
        ),
    ],
    ids=[
        "new",
        "suspended",
        "config-elsewhere",
        "schedule",
        "finished",
        "finished-to-delete",
        "child",
        "reader",
        "former-reader",
    ],
)
def test_a_run_is_found_by_what_happens_to_others(item: Json, terms: set[object]) -> None:
    assert set(terms_of(item)) == terms
    if "inputRun" not in item["status"]:  # it is cached as it is until it has a contract
        item["status"]["contract"] = "e30="
    assert set(terms_of(trim_run(item))) == terms, "the cache keeps what the terms need"


@pytest.mark.parametrize(
    ("seen", "now", "is_change"),
    [
        ({"uid": "u", "phase": "Running"}, run(phase="Running"), False),
        ({"uid": "u", "phase": "Running"}, run(phase="Succeeded"), True),
        ({"uid": "u"}, run(), False),
        ({"uid": "other"}, run(), True),
        ({}, run(), True),
        ({"uid": "u", "phase": "Running"}, None, True),
        ({}, None, False),
    ],
)
def test_a_run_looks_again_if_the_run_that_it_waits_for_is_not_what_it_has_seen(
    seen: Json, now: Json | None, *, is_change: bool
) -> None:
    reader = run(phase="Pending", reason="WaitingForRun", inputRun={"name": "a", **seen})
    assert sees_change(reader, now) is is_change
