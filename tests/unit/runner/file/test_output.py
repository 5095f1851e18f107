"""The output folder of a run: what is read and when, and which volumes are accepted."""

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from inferrun.plugins import (
    Checkpoint,
    Chunk,
    ChunkCommit,
    Contract,
    Counts,
    InputPlan,
    Limits,
    OutputError,
    RecordError,
    RecordFormat,
    ResultCounts,
    SharedStore,
    StoreContext,
)
from runner.file.output import open_output
from runner.jsonl.format import JSONL
from tests.unit.runner.batches import batch, results

CHUNKS = tuple(Chunk(index, unit=0, start=index, end=index + 1, first=index, records=1) for index in range(4))
PLAN = InputPlan(fingerprint="f", chunks=CHUNKS)
SPEC = {"claimName": "claim", "path": "out"}


def context(folder: Path, record_format: RecordFormat, *, pod: str) -> StoreContext:
    return StoreContext(
        contract=Contract(job_id="uid", job_name="inf-a"),
        limits=Limits(),
        pod_uid=pod,
        input_dir=folder,
        output_dir=folder,
        endpoints_dir=folder,
        spool_dir=folder,
        format_named=lambda _name, _field: record_format,
    )


async def predict(folder: Path, *, pod: str, chunks: Sequence[int], value: object = 1.5) -> Checkpoint:
    """Commit chunks of one record each, and the run after the last one."""
    async with open_output(SPEC, context(folder, JSONL, pod=pod)) as store:
        checkpoint = await store.open()
        await store.begin(PLAN)
        for chunk in (CHUNKS[index] for index in chunks):
            writer = store.writer(chunk)
            await writer.write(batch([[1.0]], first=chunk.first), results([value]))
            await writer.commit()
        if chunks[-1] == PLAN.total - 1:
            await store.finish(Counts(total=4, completed=4))
    return checkpoint


def run_folder(folder: Path) -> Path:
    return folder / "out" / "inf-a"


async def test_chunks_are_committed_as_a_set(tmp_path: Path) -> None:
    await predict(tmp_path, pod="pod-1", chunks=[2, 0])
    async with open_output(SPEC, context(tmp_path, JSONL, pod="pod-2")) as store:
        checkpoint = await store.open()
    assert checkpoint.plan == PLAN
    assert sorted(checkpoint.committed) == [0, 2]


async def test_a_commit_says_what_is_stored_and_who_won(tmp_path: Path) -> None:
    async def commit(pod: str, value: object) -> ChunkCommit:
        async with open_output(SPEC, context(tmp_path, JSONL, pod=pod)) as store:
            await store.open()
            await store.begin(PLAN)
            writer = store.writer(CHUNKS[1])
            await writer.write(batch([[1.0]], first=1), results([value]))
            return await writer.commit()

    first = await commit("pod-1", RecordError("rejected", "no"))
    second = await commit("pod-2", 7.25)
    assert (first.won, second.won) == (True, False)
    assert first.counts == second.counts == ResultCounts(completed=0, failed=1)
    assert (first.bytes, first.sha256) == (second.bytes, second.sha256)
    stored = (run_folder(tmp_path) / "predictions" / "part-000001-000000000001.jsonl").read_bytes()
    assert orjson.loads(stored)["error"]["code"] == "rejected"
    assert len(stored) == first.bytes
    assert (run_folder(tmp_path) / "errors" / "part-000001-000000000001.jsonl").read_bytes() == stored


async def test_a_chunk_whose_pod_died_after_its_commit_gets_its_final_name(tmp_path: Path) -> None:
    await predict(tmp_path, pod="pod-1", chunks=[0])
    folder = run_folder(tmp_path)
    final = folder / "predictions" / "part-000000-000000000000.jsonl"
    draft = folder / ".attempts" / "pod-1" / "000000.jsonl"
    draft.parent.mkdir(parents=True)
    final.rename(draft)
    await predict(tmp_path, pod="pod-2", chunks=[1, 2, 3])
    assert orjson.loads(final.read_bytes()) == {"index": 0, "prediction": 1.5}
    assert (folder / "manifest.json").exists()
    assert not (folder / ".attempts").exists()
    assert not (folder / ".commits").exists()


async def test_a_chunk_that_another_pod_is_committing_gets_its_final_name(tmp_path: Path) -> None:
    """Or else the run could not be committed by the Pod that came second, but goes on to the end."""
    await predict(tmp_path, pod="pod-1", chunks=range(3))
    folder = run_folder(tmp_path)
    final = folder / "predictions" / "part-000003-000000000003.jsonl"
    draft = folder / ".attempts" / "pod-1" / "000003.jsonl"
    async with open_output(SPEC, context(tmp_path, JSONL, pod="pod-2")) as second:
        await second.open()
        await second.begin(PLAN)
        async with open_output(SPEC, context(tmp_path, JSONL, pod="pod-1")) as first:
            await first.open()
            await first.begin(PLAN)
            writer = first.writer(CHUNKS[3])
            await writer.write(batch([[1.0]], first=3), results([1.5]))
            await writer.commit()
        draft.parent.mkdir(parents=True, exist_ok=True)
        final.rename(draft)  # as if the first Pod had published the commit, and not the file yet
        writer = second.writer(CHUNKS[3])
        await writer.write(batch([[1.0]], first=3), results([2.5]))
        assert not (await writer.commit()).won
        await second.finish(Counts(total=4, completed=4))
    assert orjson.loads(final.read_bytes()) == {"index": 3, "prediction": 1.5}


@pytest.mark.parametrize("folder", ["predictions", ".commits"])
async def test_a_pod_that_pauses_while_another_one_commits_the_run_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """It pauses after it has looked for the manifest, before it creates the folders that the other one has deleted."""
    mkdir = os.mkdir

    def create(name: str, *arguments: Any, **options: Any) -> None:  # Any: those of os.mkdir
        if name == folder:
            monkeypatch.setattr(os, "mkdir", mkdir)
            asyncio.run(predict(tmp_path, pod="pod-1", chunks=range(4)))
        mkdir(name, *arguments, **options)

    monkeypatch.setattr(os, "mkdir", create)
    late = await predict(tmp_path, pod="pod-2", chunks=range(4), value=9.9)
    assert late.committed_run is not None
    assert_has_only_the_first_commit(tmp_path)


async def test_a_pod_that_commits_a_chunk_while_another_one_cleans_up_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunk's commit is deleted, but its folder is not yet."""
    async with open_output(SPEC, context(tmp_path, JSONL, pod="pod-2")) as late:
        await late.open()
        await late.begin(PLAN)
        commits = run_folder(tmp_path) / ".commits"
        rmtree = shutil.rmtree

        def empty(path: Path, **options: Any) -> None:  # Any: those of shutil.rmtree
            rmtree(path, **options)
            if path.name == commits.name:
                commits.mkdir()

        monkeypatch.setattr(shutil, "rmtree", empty)
        await predict(tmp_path, pod="pod-1", chunks=range(4))
        monkeypatch.setattr(shutil, "rmtree", rmtree)
        writer = late.writer(CHUNKS[0])
        await writer.write(batch([[1.0]]), results([9.9]))
        assert not (await writer.commit()).won
    assert_has_only_the_first_commit(tmp_path)


def assert_has_only_the_first_commit(claim: Path) -> None:
    folder = run_folder(claim)
    parts = sorted((folder / "predictions").iterdir())
    assert [orjson.loads(part.read_bytes())["prediction"] for part in parts] == [1.5] * 4
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "predictions", "run.json"]


async def test_a_run_with_a_changed_part_is_not_committed(tmp_path: Path) -> None:
    await predict(tmp_path, pod="pod-1", chunks=range(3))
    (run_folder(tmp_path) / "predictions" / "part-000000-000000000000.jsonl").write_bytes(b"")
    with pytest.raises(OutputError, match="is missing or has changed, so the run was not committed"):
        await predict(tmp_path, pod="pod-2", chunks=[3])


async def test_a_volume_that_cannot_publish_exclusively_is_rejected_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", os.replace)
    with pytest.raises(OutputError, match="the volume of claim 'claim' supports neither hard links nor") as rejected:
        await predict(tmp_path, pod="pod-1", chunks=[0])
    assert not rejected.value.is_retryable


DOCUMENTS = ("run.json", "manifest.json", ".commits/000000.json")


async def started(claim: Path) -> Path:
    """The folder of a run with one committed chunk."""
    await predict(claim, pod="pod-1", chunks=[0])
    return run_folder(claim)


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("kind", ["pipe", "link"])
async def test_a_pipe_or_a_link_in_place_of_a_document_is_refused(tmp_path: Path, document: str, kind: str) -> None:
    """A pipe would be read without end, and a link may lead to a token."""
    claim, token = tmp_path / "claim", tmp_path / "token"
    claim.mkdir()
    token.write_text("c4nary")
    path = await started(claim) / document
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(token)
    with pytest.raises(OutputError, match="on claim 'claim'") as refused:
        await predict(claim, pod="pod-2", chunks=[1])
    assert "c4nary" not in str(refused.value)


@pytest.mark.parametrize("field", ["file", "errors", "attempt"])
@pytest.mark.parametrize(
    "place", ["../inf-b/manifest.json", "/data/x", "predictions/../../x", "predictions/", "other/x"]
)
async def test_a_commit_that_names_a_file_outside_the_run_is_refused(tmp_path: Path, field: str, place: str) -> None:
    """Whoever can write to the claim could have a file of another run replaced, or read."""
    commit = await started(tmp_path) / ".commits" / "000000.json"
    document = orjson.loads(commit.read_bytes())
    if field == "attempt":
        document["attempt"] = place
    elif field == "file":
        document["part"]["file"] = place
    else:
        document["part"]["errors"] = {**document["part"], "file": place}
    commit.write_bytes(orjson.dumps(document))
    with pytest.raises(OutputError, match="contains a file that this runner did not write"):
        await predict(tmp_path, pod="pod-2", chunks=[1])


async def test_a_foreign_name_among_the_commits_of_shards_is_ignored(tmp_path: Path) -> None:
    folder = await started(tmp_path)
    async with open_output(SPEC, context(tmp_path, JSONL, pod="pod-2")) as store:
        assert isinstance(store, SharedStore)
        await store.open()
        for name in ("x.json", "-1.json", "١٢٣٤٥٦.json"):
            (folder / ".commits" / name).write_text("{}")
        survey = await store.survey()
    assert survey.committed == {0}


@pytest.mark.parametrize("place", ["out", "out/inf-a", "out/inf-a/predictions", "out/inf-a/.attempts"])
async def test_an_output_behind_a_link_out_of_the_claim_is_refused(tmp_path: Path, place: str) -> None:
    claim, outside = tmp_path / "claim", tmp_path / "outside"
    link = claim / place
    link.parent.mkdir(parents=True)
    outside.mkdir()
    link.symlink_to(outside)
    with pytest.raises(OutputError, match="leads out of the claim; replace the link with a folder") as refused:
        await predict(claim, pod="pod-1", chunks=range(4))
    assert not refused.value.is_retryable
    assert list(outside.iterdir()) == []
