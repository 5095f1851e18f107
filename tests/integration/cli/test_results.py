"""Results through the client and the command line: a real API server with the run and the Secret,
and a real bucket."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pyarrow import parquet

from inferrun.cli.reporting import CommandExit
from inferrun.client import AsyncClient, Client
from inferrun.kube.objects import SECRETS
from inferrun.results import ResultsUnreachable, RunNotEnded
from tests.integration.cli.run_space import PROGRESS, RunSpace, terminal
from tests.integration.runner.s3_server import ACCESS_KEY, SECRET_KEY, S3Server, s3_server
from tests.unit.inferrun.results.committed_folder import commit_folder

COUNT = 120
ERROR = {"code": "rejected", "message": "\x1b[2Jtoo hot", "attempts": 1}
LINES = [
    json.dumps(
        {
            "index": at,
            "custom_id": f"c{at}",
            **({"error": ERROR} if at == 7 else {"prediction": at / 2}),
        }
    )
    for at in range(COUNT)
]
KEY = {"accessKeyId": ACCESS_KEY, "secretAccessKey": SECRET_KEY}


@pytest.fixture
async def s3(tmp_path: Path) -> AsyncIterator[S3Server]:
    async with s3_server(tmp_path / "s3") as server:
        yield server


@pytest.fixture
async def sums(space: RunSpace, s3: S3Server) -> RunSpace:
    """A namespace with a run that has written to the bucket, whose Secret does not exist yet."""
    half = COUNT // 2
    parts = [("\n".join(LINES[:half]) + "\n", half, 1), ("\n".join(LINES[half:]) + "\n", half, 0)]
    contents = [(text.encode(), records, failed) for text, records, failed in parts]
    status = commit_folder(s3.bucket / "out", contents, output={"s3": s3.spec("out")})
    await space.create("sums", status={**status, "reason": "Succeeded"})
    return space


async def create_secret(space: RunSpace) -> None:
    data = {key: b64encode(value.encode()).decode() for key, value in KEY.items()}
    await space.api.create(
        SECRETS, space.name, {"metadata": {"name": "s3-credentials"}, "data": data}
    )


async def test_the_client_reads_with_the_secret_that_the_config_names(sums: RunSpace) -> None:
    async with await AsyncClient.connect(kubeconfig=sums.kubeconfig, namespace=sums.name) as client:
        with pytest.raises(
            ResultsUnreachable,
            match=rf"its Secret {sums.name}/s3-credentials cannot be read.*not found",
        ):
            await client.results("sums")
        assert len(await client.results("sums", credentials=KEY)) == COUNT
        await create_secret(sums)
        found = await client.results("sums")
        assert [row["prediction"] for row in found] == [
            None if at == 7 else at / 2 for at in range(COUNT)
        ]
        await sums.create("running", status=PROGRESS)
        with pytest.raises(RunNotEnded):
            await client.results("running")


async def test_a_program_without_an_event_loop_gets_a_data_frame(sums: RunSpace) -> None:
    await create_secret(sums)

    def read() -> int:
        with Client(kubeconfig=sums.kubeconfig, namespace=sums.name) as client:
            return int(client.results("sums").to_pandas()["prediction"].count())

    assert read() == COUNT - 1


async def test_results_are_printed_as_lines_and_written_to_files(
    sums: RunSpace, tmp_path: Path
) -> None:
    await create_secret(sums)
    printed = sums.command("results", "sums")
    assert printed.code == CommandExit.OK, printed.err
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert [row["index"] for row in rows] == list(range(COUNT))
    assert rows[7]["error"]["code"] == "rejected"
    path = tmp_path / "results.parquet"
    printed = sums.command("results", "sums", "-o", str(path))
    assert printed.out == f"120 rows written to {path}\n"
    assert parquet.read_table(path).num_rows == COUNT
    printed = sums.command("errors", "sums")
    assert [json.loads(line)["error_code"] for line in printed.out.splitlines()] == ["rejected"]


async def test_a_terminal_shows_the_first_rows_without_what_it_would_interpret(
    sums: RunSpace,
) -> None:
    await create_secret(sums)
    with terminal(*sums.words("results", "sums")) as shown:
        assert shown.end() == CommandExit.OK
    assert "INDEX" in shown.text
    assert "rejected: too hot" in shown.text
    assert "70 more rows: write them to a file with -o results.csv" in shown.text
    with terminal(*sums.words("errors", "sums")) as shown:
        assert shown.end() == CommandExit.OK
    assert "ERROR_MESSAGE" in shown.text


async def test_the_difference_between_two_runs_is_shown_and_printed_for_programs(
    sums: RunSpace, s3: S3Server
) -> None:
    await create_secret(sums)
    lines = [line.replace('"prediction": 5.0', '"prediction": 6.5') for line in LINES]
    contents = [(("\n".join(lines) + "\n").encode(), COUNT, 1)]
    status = commit_folder(s3.bucket / "later", contents, output={"s3": s3.spec("later")})
    await sums.create("later", status={**status, "reason": "Succeeded", "duration": "1m5s"})
    printed = sums.command("diff", "sums", "later", "-o", "json")
    assert printed.code == CommandExit.OK, printed.err
    found = json.loads(printed.out)
    assert found["records"]["agreed"] == COUNT - 2
    assert (found["records"]["changed"], found["records"]["failedInBoth"]) == (1, 1)
    assert [(row["customId"], row["before"], row["after"]) for row in found["rows"]] == [
        ("c10", 5.0, 6.5)
    ]
    with terminal(*sums.words("diff", "sums", "later")) as shown:
        assert shown.end() == CommandExit.OK
    for text in (
        "118 agree, 1 changed, 1 failed in both",
        "99.17%, by custom_id",
        "c10",
        "6.5",
        "1m5s",
    ):
        assert text in shown.text


async def test_mistakes_have_documented_codes(sums: RunSpace) -> None:
    printed = sums.command("results", "sums")
    assert (printed.code, "there are no credentials for the store" in printed.err) == (
        CommandExit.UNREACHABLE,
        True,
    )
    await create_secret(sums)
    printed = sums.command("results", "sums", "-o", "results.xlsx")
    assert (printed.code, "allowed: .jsonl, .csv, .parquet, .arrow" in printed.err) == (
        CommandExit.USAGE,
        True,
    )
    assert sums.command("results", "none").code == CommandExit.NOT_FOUND
    await sums.create("running", status=PROGRESS)
    printed = sums.command("results", "running")
    assert (printed.code, "has not ended" in printed.err) == (CommandExit.TIMED_OUT, True)
    printed = sums.command("results", "sums", "--directory", "a=/x", "--directory", "/y")
    assert (printed.code, "each needs its claim" in printed.err) == (CommandExit.USAGE, True)
