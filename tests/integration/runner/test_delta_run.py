"""Runs that append to a Delta table, with the real program."""

import json

from deltalake import DeltaTable

from tests.integration.runner.pods import Machine


async def test_a_run_appends_its_results_once(file: Machine) -> None:
    (file.input / "data" / "rows.jsonl").write_text("".join(f"{json.dumps([n, 0.5])}\n" for n in range(300)))
    file.contract["output"] = {"delta": {"claimName": "made", "path": "table"}}
    for _ in range(2):
        ended = await file.pod(INFERRUN_CHUNK_BYTES="1024")
        assert (ended.code, ended.message) == (0, "300 of 300 records predicted"), ended.stderr
    table = DeltaTable(str(file.output / "table"))
    rows = sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: int(row["index"]))
    assert [(row["index"], row["prediction"]) for row in rows] == [(n, n + 0.5) for n in range(300)]
    assert table.version() == 1, "the table was created and appended to, once each"
