"""A run with the label `file`: each chunk is committed once, whatever happens to its Pods."""

import asyncio
import hashlib
import os
import shutil
import signal
from importlib.metadata import version

import orjson
import pytest
from aiohttp import web

from inferrun.contract import dump_contract
from inferrun_runner.contract_file import read_contract
from tests.integration.runner.pods import Machine, until
from tests.integration.runner.servers import CountingModel
from tests.integration.runner.volumes import remount, small_volume

COUNT = 2000
SMALL = {"INFERRUN_CHUNK_BYTES": "1024", "INFERRUN_BATCH_ROWS": "50"}


@pytest.fixture(autouse=True)
def rows(file: Machine) -> None:
    file.write_rows([index, 0.5] for index in range(COUNT))


def committed(machine: Machine) -> set[int]:
    """The indices of the records in committed parts; a killed Pod may leave others."""
    commits = [
        orjson.loads(path.read_bytes()) for path in (machine.run_folder / "commits").glob("[!.]*")
    ]
    lines = (
        line
        for one in commits
        for line in (machine.run_folder / one["part"]["file"]).read_bytes().splitlines()
    )
    return {orjson.loads(line)["index"] for line in lines}


def is_whole(machine: Machine, count: int = COUNT) -> bool:
    return machine.results == [
        {"index": index, "prediction": index + 0.5} for index in range(count)
    ]


def parts(machine: Machine) -> list[str]:
    folder = machine.run_folder / "predictions"
    return sorted(path.name for path in folder.glob("[!.]*"))


async def test_every_record_is_predicted_once_and_committed_by_a_manifest(
    file: Machine, model: CountingModel
) -> None:
    ended = await file.process(**SMALL)
    assert (ended.code, ended.message) == (0, "2000 of 2000 records predicted"), ended.stderr
    assert is_whole(file)
    assert set(model.rows.values()) == {1}
    assert ended.result.delivery == "ExactlyOnce"
    assert ended.progress()[-1] == {"total": COUNT, "completed": COUNT, "failed": 0}
    manifest = (file.run_folder / "manifest.json").read_bytes()
    assert ended.result.output.location == "made/results/inf-sums-5be07ada"
    assert ended.result.output.manifest == "made/results/inf-sums-5be07ada/manifest.json"
    assert ended.result.output.sha256 == hashlib.sha256(manifest).hexdigest()


async def test_the_manifest_lists_every_part_and_its_counts_add_up(file: Machine) -> None:
    file.contract["output"]["file"]["layout"] = {"partSize": "5Ki"}
    await file.pod(**SMALL)
    manifest = file.manifest
    assert manifest["records"] == {"total": COUNT, "completed": COUNT, "failed": 0}
    assert (manifest["modelName"], manifest["protocol"]) == ("sum", "v2")
    contract = read_contract(file.folder / "contract.json")
    assert (
        manifest["contractSha256"] == hashlib.sha256(dump_contract(contract).encode()).hexdigest()
    )
    assert manifest["runnerVersion"] == version("inferrun")
    assert sum(part["records"] for part in manifest["parts"]) == COUNT
    assert len(manifest["parts"]) > 10
    for part in manifest["parts"]:
        content = (file.run_folder / part["file"]).read_bytes()
        assert part["sha256"] == hashlib.sha256(content).hexdigest()
        assert part["first"] == orjson.loads(content.splitlines()[0])["index"]
    assert [path.name for path in file.run_folder.iterdir() if path.name.startswith(".")] == []


async def test_a_killed_pod_neither_loses_nor_duplicates_records(
    file: Machine, model: CountingModel
) -> None:
    held = asyncio.Event()

    async def hold_in_the_middle(_: web.Request) -> web.StreamResponse | None:
        if sum(model.rows.values()) >= COUNT // 2:
            await held.wait()
        return None

    model.before = hold_in_the_middle
    pod = await file.start(environment={**SMALL, "INFERRUN_CONCURRENCY": "1"})
    await until(
        lambda: (
            model.in_flight == 1 and sum(model.rows.values()) >= COUNT // 2 and len(parts(file)) > 5
        )
    )
    pod.signal(signal.SIGKILL)
    assert (await pod.end()).code == -signal.SIGKILL
    held.set()
    await until(lambda: model.in_flight == 0)
    assert not (file.run_folder / "manifest.json").exists()
    before = committed(file)
    assert 0 < len(before) < COUNT
    model.rows.clear()
    ended = await file.process(**SMALL)
    assert (ended.code, ended.message) == (0, "2000 of 2000 records predicted"), ended.stderr
    assert is_whole(file)
    assert not before & set(model.rows)
    assert set(model.rows.values()) == {1}


async def test_a_committed_run_is_not_predicted_again(file: Machine, model: CountingModel) -> None:
    first = await file.pod(**SMALL)
    seen = len(model.requests)
    file.write_rows([[0, 0.5]])  # even if its input has changed since
    again = await file.process(**SMALL)
    assert (again.code, again.result) == (0, first.result)
    assert len(model.requests) == seen


async def test_two_concurrent_pods_commit_a_run_once(file: Machine) -> None:
    first, second = await asyncio.gather(file.process(**SMALL), file.process(**SMALL))
    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert first.result == second.result
    assert is_whole(file)


async def test_a_changed_input_is_not_combined_with_committed_predictions(
    file: Machine, model: CountingModel
) -> None:
    async def fail_late(_: web.Request) -> web.StreamResponse | None:
        return web.Response(status=500) if committed(file) else None

    model.before = fail_late
    assert (await file.process(**SMALL)).code == 4
    before = file.results
    assert before
    file.write_rows([index, 0.5] for index in range(COUNT + 1))
    ended = await file.failure(3, **SMALL)
    assert ended.message.startswith("the input differs from the one this run started with")
    assert file.results == before


async def test_an_edit_that_keeps_size_and_modification_time_is_detected(
    file: Machine, model: CountingModel
) -> None:
    path = file.input / "data" / "rows.jsonl"

    async def edit(_: web.Request) -> web.StreamResponse | None:
        before = path.stat()
        with path.open("r+b") as content:
            content.write(b"[7, 0.5]")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size
        return None

    model.before = edit
    ended = await file.failure(3, **SMALL)
    assert ended.message.startswith("the input changed while it was being read")
    assert not (file.run_folder / "manifest.json").exists()


async def test_the_folder_of_another_run_is_not_modified(file: Machine) -> None:
    await file.success()
    before = (file.run_folder / "manifest.json").read_bytes()
    # as another run of a schedule, whose UID is the jobId of both
    file.contract |= {"runId": "other"}
    await file.failure(5, "belongs to another run (5be07ada-")
    assert (file.run_folder / "manifest.json").read_bytes() == before


async def test_input_and_output_may_be_one_claim(file: Machine) -> None:
    file.contract["output"] = {"file": {"claimName": "given", "path": "data"}}
    await file.success(INFERRUN_OUTPUT_DIR=str(file.input))
    file.contract |= {"jobId": "other", "runId": "other", "jobName": "inf-other"}
    file.contract["input"] = {"file": {"claimName": "given", "path": "data"}}
    message = (await file.pod(INFERRUN_OUTPUT_DIR=str(file.input))).message
    outputs = "nested folder 1 (inf-sums-5be07ada)"
    assert message == f"2000 of 2000 records predicted; not read: {outputs}"


@pytest.mark.parametrize("text", ["", "\n\n \n"])
async def test_an_empty_file_gives_a_run_without_records_if_it_may_be_empty(
    file: Machine, text: str
) -> None:
    (file.input / "data" / "rows.jsonl").write_text(text)
    file.contract["input"]["file"]["allowEmpty"] = True
    ended = await file.success()
    assert ended.message.partition("; not read: ")[0] == "0 of 0 records predicted"
    assert (file.run_folder / "manifest.json").exists()


async def test_quotes_that_do_not_match_are_found_before_the_first_request(file: Machine) -> None:
    lines = "".join(f"{index},0.5\n" for index in range(COUNT))
    (file.input / "data" / "rows.csv").write_text(f'a,b\n{lines}1,"2\n')
    file.contract["input"]["file"] |= {"path": "data/rows.csv", "format": "csv"}
    await file.final_failure(
        3, f"rows.csv line {COUNT + 2} begins a value in quotes that does not end", **SMALL
    )
    assert not file.run_folder.exists()


async def test_an_unwritable_output_is_reported(file: Machine) -> None:
    file.output.chmod(0o555)
    pod = await file.start(before=without_root_privileges())
    ended = await pod.end()
    assert ended.code == 5
    assert (
        "Permission denied; the runner runs as user 65532; make the volume writable"
        in ended.message
    )


async def test_an_unreadable_input_is_reported(file: Machine) -> None:
    (file.input / "data" / "rows.jsonl").chmod(0o000)
    pod = await file.start(before=without_root_privileges())
    ended = await pod.end()
    assert ended.code == 3
    assert "claim 'given': Permission denied; the runner runs as user 65532" in ended.message


async def test_a_run_continues_once_a_full_volume_has_space(file: Machine) -> None:
    with small_volume(file.output, kib=40):
        await file.failure(
            5,
            "No space left on device; free space on the claim; the next attempt continues",
            **SMALL,
        )
        committed = len(parts(file))
        assert committed > 3
        await remount(file.output, "size=4m")
        await file.success(**SMALL)
        assert is_whole(file)


async def test_a_read_only_volume_is_reported(file: Machine) -> None:
    with small_volume(file.output, kib=40):
        await remount(file.output, "ro")
        await file.failure(5, "Read-only file system; the volume is mounted read-only; use a claim")


def without_root_privileges() -> list[str]:
    """Return a command prefix under which file permissions apply."""
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is required to drop root privileges")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]


async def test_progress_says_how_many_requests_failed(file: Machine, model: CountingModel) -> None:
    failures = iter(range(3))

    async def fail_at_first(_: web.Request) -> web.StreamResponse | None:
        return web.Response(status=503) if next(failures, None) is not None else None

    model.before = fail_at_first
    one_by_one = {
        "INFERRUN_CONCURRENCY": "1",
        "INFERRUN_RETRY_SECONDS": "60",
        "INFERRUN_PROGRESS_SECONDS": "0",
    }
    ended = await file.process(**SMALL, **one_by_one)
    assert ended.code == 0
    paces = [orjson.loads(line).get("pace") or {} for line in ended.stdout.splitlines()]
    requests, failed = max(
        (pace.get("requests", 0), pace.get("failedRequests", 0)) for pace in paces
    )
    assert (requests, failed) == (COUNT / 50 + 3, 3)
    sent, received = max((pace.get("sentBytes", 0), pace.get("receivedBytes", 0)) for pace in paces)
    assert sent > COUNT * len("[0,0.5]")
    assert received > COUNT * len("0")


async def test_a_run_whose_requests_all_fail_says_so_while_it_tries(
    file: Machine, model: CountingModel
) -> None:
    async def fail(_: web.Request) -> web.StreamResponse | None:
        return web.Response(status=503)

    model.before = fail
    ended = await file.process(**SMALL, INFERRUN_RETRY_SECONDS="6", INFERRUN_PROGRESS_SECONDS="0")
    assert ended.code == 4
    paces = [orjson.loads(line).get("pace") or {} for line in ended.stdout.splitlines()]
    assert any(pace.get("failedRequests") for pace in paces[:-1])
