"""A run whose input is the output of another run: both are executed by the real program, with real
stores between them."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.integration.runner.openai_server import openai_server
from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.postgres_server import Postgres
from tests.integration.runner.s3_server import S3Server, credentials
from tests.integration.runner.servers import CountingModel, nothing
from tests.integration.runner.test_openai_batch import batch_file

COUNT = 400
BAD = {0, 3, 250}
SMALL = {"INFERRUN_CHUNK_BYTES": "1024", "INFERRUN_BATCH_ROWS": "50"}
Rows = list[dict[str, Any]]  # Any: JSON


@dataclass
class Chain:
    """The first run, and a second one that reads its output."""

    first: Machine
    second: Machine

    async def predict(self, **environment: str) -> Ended:
        """Execute the first run, and let the second one read what it committed."""
        ended = await self.first.success(**SMALL, **environment)
        earlier = self.first.contract
        self.second.contract |= {
            "input": {"run": {"name": "sums"}},
            "inputRun": {
                "name": "sums",
                "runId": earlier["runId"],
                "jobName": earlier["jobName"],
                "manifestSha256": ended.result.output.sha256 if ended.result.output else "",
                "output": earlier["output"],
            },
        }
        return ended

    @property
    def results(self) -> Rows:
        """The results of the second run, which are JSON lines on a claim."""
        folder = self.second.output / "results" / str(self.second.contract["jobName"])
        manifest = json.loads((folder / "manifest.json").read_text())
        return [
            orjson.loads(line)
            for part in manifest["parts"]
            for line in (folder / part["file"]).read_bytes().splitlines()
        ]

    @property
    def parts(self) -> list[Path]:
        """The files of the first run's predictions on its claim."""
        return sorted(
            (
                self.first.output / "results" / str(self.first.contract["jobName"]) / "predictions"
            ).iterdir()
        )


@pytest.fixture
def chain(file: Machine, tmp_path: Path) -> Chain:
    file.write_rows(
        {"custom_id": f"c{index}", "inputs": [index, 0.5], "city": "Rome"} for index in range(COUNT)
    )
    second = Machine(tmp_path / "second", contract={"kserve": file.contract["kserve"]})
    uid = "c0ffee00-5fe0-4c9e-a8bc-aaae67d8d344"
    second.contract |= {"jobId": uid, "runId": uid, "jobName": "inf-chained-c0ffee00"}
    second.contract["output"] = {"file": {"claimName": "second", "path": "results"}}
    for place in ("input", "endpoints/input"):
        (second.folder / place).rmdir()
    second.input.symlink_to(file.output)
    (second.folder / "endpoints" / "input").symlink_to(file.folder / "endpoints" / "output")
    return Chain(file, second)


def store_in(chain: Chain, store: str, form: str, *, s3: S3Server, postgres: Postgres) -> None:
    """Have the first run write to that store."""
    folder = chain.first.folder / "endpoints" / "output"
    match store:
        case "file":
            chain.first.contract["output"]["file"]["format"] = form
        case "s3":
            chain.first.contract["output"] = {"s3": s3.spec("made", format=form)}
            credentials(folder)
        case "sql":
            postgres.execute("drop table if exists inferrun_runs, inferrun_chunks, predictions")
            chain.first.contract["output"] = {
                "sql": {"credentialsRef": {"name": "database"}, "table": "predictions"}
            }
            postgres.mount(folder)


@pytest.mark.parametrize(
    "kind",
    [
        ("file", "jsonl"),
        ("file", "csv"),
        ("s3", "parquet"),
        ("sql", ""),
        *(
            pytest.param(one, marks=pytest.mark.thorough)
            for one in (("file", "arrow"), ("file", "parquet"))
        ),
        *(
            pytest.param(("s3", form), marks=pytest.mark.thorough)
            for form in ("jsonl", "csv", "arrow")
        ),
    ],
    ids="-".join,
)
async def test_each_prediction_is_a_record_and_what_failed_stays_failed(
    chain: Chain, model: CountingModel, s3: S3Server, postgres: Postgres, kind: tuple[str, str]
) -> None:
    store_in(chain, *kind, s3=s3, postgres=postgres)
    chain.first.contract |= {
        "joinSource": "Input",
        "tensors": {"inputs": [{"columns": ["inputs"]}]},
    }
    model.reject(BAD)
    await chain.predict()
    model.accept()
    chain.second.contract["passThroughColumns"] = ["city"]
    ended = await chain.second.success(**SMALL)
    assert ended.result.records is not None
    assert ended.result.records.model_dump() == {
        "total": COUNT,
        "completed": COUNT - len(BAD),
        "failed": len(BAD),
    }
    assert set(model.rows) == {index + 0.5 for index in set(range(COUNT)) - BAD}
    assert [row["index"] for row in chain.results] == list(range(COUNT))
    assert [row["custom_id"] for row in chain.results] == [f"c{index}" for index in range(COUNT)]
    for row in chain.results:
        assert row["city"] == "Rome"
        if row["index"] in BAD:
            assert row["error"]["code"] == "input_run"
            assert row["error"]["message"].startswith(
                f"record {row['index']} failed in run 'sums': rejected: "
            )
        else:
            assert row["prediction"] == row["index"] + 0.5


async def test_columns_and_members_of_predictions_feed_the_model_and_are_copied(
    chain: Chain, model: CountingModel
) -> None:
    chain.first.contract |= {
        "tensors": {
            "inputs": [{"columns": ["inputs"]}],
            "outputs": [{"name": "predict", "resultName": "total"}],
        },
        "passThroughColumns": ["city"],
    }
    await chain.predict()
    model.rows.clear()
    chain.second.contract |= {
        "tensors": {"inputs": [{"columns": ["index", "prediction.total"]}]},
        "passThroughColumns": ["city", "prediction.total"],
    }
    await chain.second.success(**SMALL)
    assert chain.results == [
        {
            "index": index,
            "custom_id": f"c{index}",
            "city": "Rome",
            "prediction.total": index + 0.5,
            "prediction": 2 * index + 0.5,
        }
        for index in range(COUNT)
    ]


async def test_join_source_copies_what_the_first_run_copied(chain: Chain) -> None:
    chain.first.contract |= {
        "tensors": {"inputs": [{"columns": ["inputs"]}]},
        "passThroughColumns": ["city"],
    }
    await chain.predict()
    chain.second.contract["joinSource"] = "Input"
    await chain.second.success(**SMALL)
    assert chain.results[7] == {"index": 7, "custom_id": "c7", "city": "Rome", "prediction": 7.5}


async def test_predictions_that_are_objects_need_columns(chain: Chain) -> None:
    chain.first.contract["tensors"] = {"outputs": [{"name": "predict", "resultName": "total"}]}
    await chain.predict()
    await chain.second.failure(
        3,
        "got an object; name what feeds the model in tensors.inputs, such as prediction.label",
        **SMALL,
    )


async def test_a_column_that_does_not_exist_is_named_with_a_similar_one(chain: Chain) -> None:
    await chain.predict()
    chain.second.contract["tensors"] = {"inputs": [{"columns": ["predicton"]}]}
    await chain.second.failure(
        3, "has no 'predicton', which tensors.inputs names, did you mean 'prediction'?", **SMALL
    )


async def test_responses_of_a_language_model_feed_another_model(
    chain: Chain, model: CountingModel
) -> None:
    async with openai_server() as llm:
        (chain.first.input / "data" / "rows.jsonl").write_text(batch_file(COUNT))
        chain.first.contract |= {"kserve": {"modelUrl": llm.url, "protocolVersion": "openai"}}
        chain.first.contract["input"]["file"]["format"] = "openai"
        chain.first.contract["output"]["file"]["format"] = "openai"
        await chain.predict()
    column = "prediction.body.usage.total_tokens"
    chain.second.contract |= {
        "tensors": {"inputs": [{"columns": [column]}]},
        "passThroughColumns": [column],
    }
    await chain.second.success(**SMALL)
    assert [row["custom_id"] for row in chain.results] == [
        f"request-{index}" for index in range(COUNT)
    ]
    assert all(row["prediction"] == row[column] > 0 for row in chain.results)


async def test_failed_requests_to_a_language_model_stay_failed(chain: Chain) -> None:
    async with openai_server() as llm:
        bad = json.dumps({"custom_id": "bad", "method": "POST", "url": "/v1/unknown", "body": {}})
        (chain.first.input / "data" / "rows.jsonl").write_text(f"{bad}\n{batch_file(20)}{bad}\n")
        chain.first.contract |= {"kserve": {"modelUrl": llm.url, "protocolVersion": "openai"}}
        chain.first.contract["input"]["file"]["format"] = "openai"
        chain.first.contract["output"]["file"]["format"] = "openai"
        await chain.predict()
    chain.second.contract["tensors"] = {"inputs": [{"columns": ["prediction.status_code"]}]}
    await chain.second.success(**SMALL)
    failed = [row["index"] for row in chain.results if "error" in row]
    assert ([row["index"] for row in chain.results], failed) == (list(range(22)), [0, 21])


async def test_the_output_of_a_run_of_several_pods_is_read_in_order(chain: Chain) -> None:
    chain.first.contract["output"]["file"]["layout"] = {"partSize": "4Ki"}
    environment = {**SMALL, "INFERRUN_SHARDS": "2", "INFERRUN_CLAIM_SECONDS": "3"}
    pods = [
        await chain.first.start(environment={**environment, "JOB_COMPLETION_INDEX": str(at)})
        for at in range(2)
    ]
    assert [(await pod.end()).code for pod in pods] == [0, 0]
    await chain.predict()  # what was committed is not predicted again
    assert len(chain.parts) > 2
    await chain.second.success(**SMALL)
    expected = [(index, f"c{index}", index + 0.5) for index in range(COUNT)]
    assert [
        (row["index"], row["custom_id"], row["prediction"]) for row in chain.results
    ] == expected


async def test_the_output_of_a_retry_is_read_as_a_whole_and_that_of_the_retried_run_stays(
    chain: Chain, model: CountingModel
) -> None:
    model.reject(BAD)
    await chain.predict()
    before = dict(chain.second.contract["inputRun"])
    model.before = nothing
    earlier = chain.first.contract
    retried = {"name": "sums", "runId": earlier["runId"], "jobName": earlier["jobName"]}
    retried["manifestSha256"] = before["manifestSha256"]
    again = "0badcafe-5fe0-4c9e-a8bc-aaae67d8d344"
    chain.first.contract = {
        **earlier,
        "jobId": again,
        "runId": again,
        "jobName": "inf-sums-0badcafe",
        "retryOf": retried,
    }
    await chain.predict()
    await chain.second.success(**SMALL)
    assert [row["prediction"] for row in chain.results] == [index + 0.5 for index in range(COUNT)]
    third = chain.second.contract | {"inputRun": before, "runId": "third", "jobName": "inf-third"}
    chain.second.contract = third
    await chain.second.success(**SMALL)
    assert {row["index"] for row in chain.results if "error" in row} == BAD


async def test_a_dry_run_checks_the_first_records(chain: Chain, model: CountingModel) -> None:
    model.reject({0})
    await chain.predict()
    chain.second.contract["dryRun"] = True
    ended = await chain.second.success(**SMALL)
    assert "input.run: the first" in ended.message


@pytest.mark.parametrize("part", [0, -1])
@pytest.mark.parametrize("change", ["content", "deletion"])
async def test_results_that_changed_since_are_not_used(
    chain: Chain, part: int, change: str
) -> None:
    await chain.predict()
    path = chain.parts[part]
    if change == "content":
        path.write_bytes(path.read_bytes().replace(b"5}", b"6}", 1))
    else:
        path.unlink()
    await chain.second.final_failure(
        3, f"predictions/{path.name} is missing or has changed since", **SMALL
    )


async def test_rows_that_changed_since_are_not_used(
    chain: Chain, s3: S3Server, postgres: Postgres
) -> None:
    store_in(chain, "sql", "", s3=s3, postgres=postgres)
    await chain.predict()
    postgres.execute("delete from predictions where index = 77")
    await chain.second.final_failure(3, "rows were changed or deleted", **SMALL)


async def test_output_of_another_run_in_the_same_place_is_not_used(chain: Chain) -> None:
    await chain.predict()
    manifest = chain.parts[0].parents[1] / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    changed = await chain.second.pod(**SMALL)
    shutil.rmtree(manifest.parent)
    deleted = await chain.second.pod(**SMALL)
    assert [changed.code, deleted.code] == [3, 3]
    assert (
        "the manifest of run 'sums' in made/results/inf-sums-5be07ada is not the one"
        in changed.message
    )
    assert (
        "the manifest of run 'sums' in made/results/inf-sums-5be07ada is missing" in deleted.message
    )


async def test_a_contract_without_the_location_of_the_output_is_rejected(chain: Chain) -> None:
    chain.second.contract["input"] = {"run": {"name": "sums"}}
    ended = await chain.second.failure(2, **SMALL)
    assert (
        ended.message
        == "input.run: the contract has no inputRun, which says where the output of that run is"
    )
