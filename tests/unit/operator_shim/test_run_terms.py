"""Under which terms the shim finds a run."""

from typing import Any

import pytest

from inferrun import wellknown
from operator_shim.run_terms import (
    A_MODEL,
    TO_DELETE,
    UNFINISHED,
    Awaited,
    created_by,
    quota,
    sees_change,
    terms_of,
    unfinished_with,
)
from operator_shim.run_watch import trim_run
from tests.unit.objects import Json


# Any: JSON
def run(*, owners: list[Json] | None = None, spec: Json | None = None, **status: Any) -> Json:
    metadata = {
        "name": "a",
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "1",
        "ownerReferences": owners or [],
    }
    return {
        "metadata": metadata,
        "spec": {"configRef": {"name": "iris"}, **(spec or {})},
        "status": status,
    }


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
            run(
                owners=[{"kind": wellknown.RUN_KIND, "uid": "s"}, {"kind": "Other", "uid": "o"}],
                phase="Failed",
            ),
            {created_by("team", "s")},
        ),
        (
            run(phase="Pending", reason="WaitingForRun", inputRun={"name": "nightly"}),
            {
                UNFINISHED,
                unfinished_with("team", "iris"),
                Awaited("InferenceConfig", "team", "iris"),
                Awaited("InferenceRun", "team", "nightly"),
            },
        ),
        (
            run(phase="Pending", reason="JobCreated", inputRun={"name": "nightly"}),
            {
                UNFINISHED,
                unfinished_with("team", "iris"),
                Awaited("InferenceConfig", "team", "iris"),
            },
        ),
        (
            run(phase="Pending", reason="QuotaExceeded"),
            {
                UNFINISHED,
                unfinished_with("team", "iris"),
                Awaited("InferenceConfig", "team", "iris"),
                quota("team"),
            },
        ),
        (
            run(
                phase="Pending",
                reason="ModelNotReady",
                model={"kind": "InferenceService", "namespace": "models", "name": "iris"},
                contract="e30=",
            ),
            {
                UNFINISHED,
                unfinished_with("team", "iris"),
                Awaited("InferenceService", "models", "iris"),
                A_MODEL,
            },
        ),
        (run(spec={"schedule": "@daily"}, phase="Pending", reason="InvalidSchedule"), {UNFINISHED}),
        (
            run(spec={"backfill": {"schedule": "nightly"}}, phase="Pending", reason="Accepted"),
            {UNFINISHED},
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
        "without-room",
        "without-model",
        "invalid-schedule",
        "back-fill",
    ],
)
def test_a_run_is_found_by_what_happens_to_others(item: Json, terms: set[object]) -> None:
    assert set(terms_of(item)) == terms
    if item["status"].get("phase") != "Pending":  # until it has a contract it is cached as it is
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
    assert sees_change(reader, lambda _namespace, _name: now) is is_change
