"""The output folder of a run: what is read and when, and which volumes are accepted."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import orjson
import pytest

from inferrun.formats.jsonl.format import JSONL
from inferrun.plugins import (
    Checkpoint,
    Chunk,
    Counts,
    InputPlan,
    OutputError,
    RecordFormat,
    RetriedRun,
    StoreContext,
)
from inferrun_runner.stores.file.output import open_output
from tests.unit.runner.batches import batch, results
from tests.unit.runner.stores.contexts import context_of

CHUNKS = tuple(
    Chunk(index, unit=0, start=index, end=index + 1, first=index, records=1) for index in range(4)
)
PLAN = InputPlan(fingerprint="f", chunks=CHUNKS)
SPEC = {"claimName": "claim", "path": "out"}
JOINED = ("part-000000-000000000000-000003", "000000-000003.json", "manifest.json")


def context(folder: Path, record_format: RecordFormat, *, pod: str) -> StoreContext:
    return context_of(
        folder, record_format=record_format, pod=pod, spool=folder.parent / f"{folder.name}-{pod}"
    )


async def predict(
    folder: Path, *, pod: str, chunks: Sequence[int], value: object = 1.5
) -> Checkpoint:
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


async def test_what_pods_that_died_have_left_behind_is_deleted_with_the_commit(
    tmp_path: Path,
) -> None:
    await predict(tmp_path, pod="pod-1", chunks=[0])
    left = (
        "predictions/part-000001-000000000001-dead.jsonl",
        "predictions/.part-000002-000000000002-dead.jsonl.dead",
    )
    for name in left:
        (run_folder(tmp_path) / name).write_text("{}")
    await predict(tmp_path, pod="pod-2", chunks=[1, 2, 3])
    assert_has_only_the_first_commit(tmp_path)


@pytest.mark.parametrize("step", ["run.json", "part-000000", "000000.json", "000003.json", *JOINED])
async def test_a_pod_that_pauses_while_another_one_commits_the_run_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """It pauses before it publishes a file."""
    fsync = os.fsync

    def pause(handle: int) -> None:
        if Path(f"/proc/self/fd/{handle}").readlink().name.startswith(f".{step}"):
            monkeypatch.setattr(os, "fsync", fsync)
            asyncio.run(predict(tmp_path, pod="pod-1", chunks=range(4)))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", pause)
    with suppress(OutputError):  # what it had not published yet was deleted
        await predict(tmp_path, pod="pod-2", chunks=range(4), value=9.9)
    async with open_output(SPEC, context(tmp_path, JSONL, pod="pod-2")) as late:
        assert (await late.open()).committed_run is not None
    count = 4 if step in JOINED else 3 if step == "000003.json" else 0
    assert_has_only_the_first_commit(tmp_path, late=count)


def assert_has_only_the_first_commit(claim: Path, *, late: int = 0) -> None:
    """The first commit of each chunk; those of the `late` first ones are of the late Pod."""
    folder = run_folder(claim)
    parts = sorted((folder / "predictions").iterdir())
    found = [
        orjson.loads(line)["prediction"]
        for part in parts
        for line in part.read_bytes().splitlines()
    ]
    assert found == [9.9] * late + [1.5] * (4 - late)
    assert sorted(path.name for path in folder.iterdir()) == [
        "commits",
        "manifest.json",
        "predictions",
        "run.json",
    ]


async def test_a_run_with_a_changed_part_is_not_continued(tmp_path: Path) -> None:
    await predict(tmp_path, pod="pod-1", chunks=range(3))
    next((run_folder(tmp_path) / "predictions").glob("part-000000-*")).write_bytes(b"")
    with pytest.raises(OutputError, match="is missing or has changed since it was committed"):
        await predict(tmp_path, pod="pod-2", chunks=[3])


DOCUMENTS = ("run.json", "manifest.json", "commits/000000.json")


async def started(claim: Path) -> Path:
    """The folder of a run with one committed chunk."""
    await predict(claim, pod="pod-1", chunks=[0])
    return run_folder(claim)


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("kind", ["pipe", "link"])
async def test_a_pipe_or_a_link_in_place_of_a_document_is_refused(
    tmp_path: Path, document: str, kind: str
) -> None:
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
async def test_a_commit_that_names_a_file_outside_the_run_is_refused(
    tmp_path: Path, field: str, place: str
) -> None:
    """Whoever can write to the claim could have a file of another run replaced, or read."""
    commit = await started(tmp_path) / "commits" / "000000.json"
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
        assert store.abilities.shared is not None
        await store.open()
        for name in ("x.json", "-1.json", "١٢٣٤٥٦.json"):
            (folder / "commits" / name).write_text("{}")
        survey = await store.abilities.shared.survey()
    assert survey.committed == {0}


@pytest.mark.parametrize("draft", ["{", "whole"])
async def test_a_draft_that_a_pod_left_among_the_commits_does_not_matter_to_the_run_that_retries_it(
    tmp_path: Path, draft: str
) -> None:
    await predict(tmp_path, pod="pod-1", chunks=[0, 1])
    commits = run_folder(tmp_path) / "commits"
    whole = (commits / "000001.json").read_text().replace("-pod-1.", "-dead.")
    (commits / ".000001.json.dead").write_text(whole if draft == "whole" else draft)
    ended = RetriedRun(name="a", run_id="uid", job_name="inf-a")
    async with open_output(SPEC, context(tmp_path, JSONL, pod="pod-2")) as store:
        assert store.abilities.earlier_results is not None
        earlier = await store.abilities.earlier_results(ended)
        assert earlier is not None
        assert [earlier.predictions(chunk) for chunk in (0, 1, 2)] == [{0: b"1.5"}, {1: b"1.5"}, {}]


@pytest.mark.parametrize(
    "place", ["out", "out/inf-a", "out/inf-a/predictions", "out/inf-a/commits"]
)
async def test_an_output_behind_a_link_out_of_the_claim_is_refused(
    tmp_path: Path, place: str
) -> None:
    claim, outside = tmp_path / "claim", tmp_path / "outside"
    link = claim / place
    link.parent.mkdir(parents=True)
    outside.mkdir()
    link.symlink_to(outside)
    with pytest.raises(
        OutputError, match="leads out of the claim; replace the link with a folder"
    ) as refused:
        await predict(claim, pod="pod-1", chunks=range(4))
    assert not refused.value.is_retryable
    assert list(outside.iterdir()) == []
