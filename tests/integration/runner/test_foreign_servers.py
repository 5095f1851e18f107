"""Answers that other people's servers have given, played back to runs: each record becomes what it
should.

`tests/foreign/<software>/record.py` has made each of them from the real server, and says what is
expected. The run is the real one; a request that was not recorded fails the test, because then
nothing is known of the answer.
"""

from pathlib import Path
from typing import Any

import pytest

from inferrun.contract import Model
from inferrun.plugins import Limits, ModelContext
from inferrun_runner.protocols.probe import open_probe, with_protocol
from tests.foreign.answers import playing, read_recording, recordings
from tests.integration.runner.pods import Machine

RECORDED = recordings()


@pytest.mark.parametrize("name", RECORDED)
async def test_a_real_servers_answers_become_the_expected_results(
    name: str, tmp_path: Path
) -> None:
    recording = read_recording(RECORDED[name])
    async with playing(recording) as (url, unknown):
        kserve = {**recording.contract["kserve"], "modelUrl": url}
        contract = {
            "jobId": "uid",
            "jobName": "inf-played",
            "input": {"file": {"claimName": "data", "path": "rows.jsonl"}},
            "output": {"file": {"claimName": "data", "path": "out"}},
            **recording.contract,
            "kserve": kserve,
        }
        machine = Machine(tmp_path / "run", contract=contract)
        machine.write_rows(recording.rows, "rows.jsonl")
        limits = Limits(allowed_addresses="127.0.0.0/8")
        context = ModelContext(limits=limits, credentials_dir=tmp_path / "none")
        described = await with_protocol(Model.model_validate(kserve), context)
        async with open_probe(described, limits, endpoints=tmp_path) as probe:
            finding = await probe()
        ended = await machine.pod()
    assert not unknown, (
        f"not recorded; run python -m tests.foreign {name.partition('/')[0]} --update"
    )
    assert finding.is_ready == recording.is_ready, finding.seen
    if isinstance(recording.expected, dict):
        assert ended.code == recording.expected["code"], ended.message
        assert recording.expected["message"] in ended.message
        return
    assert ended.code == 0, ended.message
    results = [_seen(one) for one in machine.results]
    assert [
        _as_expected(*pair) for pair in zip(results, recording.expected, strict=True)
    ] == recording.expected


def _seen(result: dict[str, Any]) -> dict[str, Any]:  # Any: JSON
    if error := result.get("error"):
        return {"error": error["code"], "message": error["message"]}
    return {"prediction": result["prediction"]}


def _as_expected(seen: Any, expected: Any) -> Any:  # Any: JSON
    """What of a result is compared: of objects, the members that are expected, and of a message the
    part."""
    if isinstance(seen, dict) and isinstance(expected, dict):
        return {
            name: _as_expected(one, expected[name]) if name in expected else one
            for name, one in seen.items()
            if name in expected
        }
    if isinstance(seen, str) and isinstance(expected, str) and expected in seen:
        return expected
    return seen
