"""The ids of spans."""

from uuid import uuid4

from control.spans import launch_span_id, run_span_id, trace_id

UID = "0f3c5ad2-4d52-4e6b-9d30-0e8f8f5d2a11"


def test_the_id_of_a_trace_is_the_uid_of_its_run() -> None:
    assert f"{trace_id(UID):032x}" == UID.replace("-", "")
    others = {
        trace_id(uid)
        for uid in ("run-1", "run-2", str(uuid4()), "00000000-0000-0000-0000-000000000000")
    }
    assert len(others) == 4
    assert all(0 < one < 2**128 for one in others)


def test_the_spans_of_a_run_and_its_launches_have_ids_that_every_version_finds() -> None:
    found = [
        run_span_id(UID),
        *(launch_span_id(UID, launch) for launch in range(1, 200)),
        run_span_id("another"),
    ]
    assert len(set(found)) == len(found)
    assert run_span_id(UID) == 0x55825A6904435F31
