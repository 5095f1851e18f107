"""Under which terms the shim finds a run."""

from typing import Any

import pytest

from inferrun import wellknown
from operator_shim.run_terms import TO_DELETE, UNFINISHED, created_by, terms_of, unfinished_with
from operator_shim.trimming import trim_run
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
    ],
    ids=["new", "suspended", "config-elsewhere", "schedule", "finished", "finished-to-delete", "child"],
)
def test_a_run_is_found_by_what_happens_to_others(item: Json, terms: set[object]) -> None:
    assert set(terms_of(item)) == terms
    item["status"]["contract"] = "e30="
    assert set(terms_of(trim_run(item))) == terms, "the cache keeps what the terms need"
