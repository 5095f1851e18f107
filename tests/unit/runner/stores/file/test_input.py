"""The input on a claim: what is read, and which names and links are refused."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from inferrun.formats.record_texts import json_texts
from inferrun.plugins import InputError
from inferrun_runner.stores.file.input import open_input
from tests.unit.runner.stores.contexts import context_of


async def rows_of(claim: Path, path: str) -> list[object]:
    async with open_input({"claimName": "claim", "path": path}, context_of(claim)) as source:
        blocks = [block for chunk in source.plan().chunks for block in source.read(chunk)]
        source.verify()
        return [json.loads(text) for block in blocks for text in json_texts(block.records)]


async def refusal(claim: Path, path: str) -> InputError:
    with pytest.raises(InputError) as refused:
        await rows_of(claim, path)
    return refused.value


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "token.jsonl").write_text("c4nary\n")
    root = tmp_path / "claim"
    (root / "in").mkdir(parents=True)
    (root / "in" / "a.jsonl").write_text("[1]\n")
    (root / "in" / "b.jsonl").write_text("[2]\n")
    return root


async def test_a_link_within_the_claim_is_read(claim: Path) -> None:
    (claim / "latest").symlink_to("in")
    (claim / "one.jsonl").symlink_to("latest/b.jsonl")
    assert await rows_of(claim, "latest") == [[1], [2]]
    assert await rows_of(claim, "one.jsonl") == [[2]]


@pytest.mark.parametrize(
    "target",
    [
        "../secret/token.jsonl",
        "/etc/passwd",
        "in/../../secret/token.jsonl",
        "link.jsonl",
        "../claim/in/a.jsonl",
    ],
)
async def test_a_file_behind_a_link_out_of_the_claim_is_not_read(claim: Path, target: str) -> None:
    (claim / "link.jsonl").symlink_to(target)
    refused = await refusal(claim, "link.jsonl")
    assert "leads out of the claim" in str(refused)
    assert "c4nary" not in str(refused)


async def test_a_folder_behind_a_link_out_of_the_claim_is_neither_read_nor_listed(
    claim: Path,
) -> None:
    (claim / "link").symlink_to("../secret")
    assert "leads out of the claim" in str(await refusal(claim, "link"))
    assert "token" not in str(await refusal(claim, "link/none.jsonl"))


async def test_a_link_among_the_files_of_a_folder_is_refused(claim: Path) -> None:
    (claim / "in" / "c.jsonl").symlink_to("../../secret/token.jsonl")
    refused = await refusal(claim, "in")
    assert "c.jsonl is a link" in str(refused)
    assert not refused.is_retryable


async def test_a_pipe_is_not_read(claim: Path) -> None:
    os.mkfifo(claim / "in" / "c.jsonl")
    assert "c.jsonl is not a file" in str(await refusal(claim, "in"))


async def test_a_name_that_is_not_utf_8_is_an_input_error(claim: Path) -> None:
    (claim / "in" / os.fsdecode(b"\xff.jsonl")).write_text("[3]\n")
    refused = await refusal(claim, "in")
    assert "the name of file \\xff.jsonl is not UTF-8" in str(refused)
    assert not refused.is_retryable


async def test_a_path_that_does_not_exist_is_reported_with_what_does(claim: Path) -> None:
    assert "'in' contains a.jsonl, b.jsonl" in str(await refusal(claim, "in/none.jsonl"))
    assert "the claim contains in" in str(await refusal(claim, "none/none.jsonl"))
    assert "does not exist" in str(await refusal(claim, "in/a.jsonl/x"))
    assert "folder '.' on claim 'claim' has no *.jsonl file; it contains in" in str(
        await refusal(claim, ".")
    )


def _write_again(path: Path, content: bytes) -> None:
    """Write into a file, and set its time of modification back."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


TOUCHES: dict[str, Callable[[Path], object]] = {
    "the same owner (the kubelet, for another Pod with fsGroup)": lambda path: os.chown(
        path, os.getuid(), os.getgid()
    ),
    "another mode": lambda path: path.chmod(0o640),
    "a hard link": lambda path: path.parent.parent.joinpath(uuid4().hex).hardlink_to(path),
    "an extended attribute": lambda path: os.setxattr(path, "user.backup", b"1"),
    "the same content": lambda path: _write_again(path, b"[1]"),
}
"""What leaves size, time of modification and content of a file as they are."""


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
async def test_metadata_of_a_file_may_change_while_it_is_read_and_between_two_pods(
    claim: Path, touch: Callable[[Path], object]
) -> None:
    spec, path = {"claimName": "claim", "path": "in"}, claim / "in" / "a.jsonl"
    async with open_input(spec, context_of(claim)) as source:
        plan = source.plan()
        before = path.stat().st_ctime_ns
        # the clock of file systems has steps of up to 10 ms
        while path.stat().st_ctime_ns == before:
            touch(path)
        source.verify()
    async with open_input(spec, context_of(claim)) as second:
        assert second.abilities.adopt is not None
        second.abilities.adopt(plan)
        assert second.fingerprint == plan.fingerprint
        assert second.plan() == plan  # a run that is repeated with other chunks
        second.verify()


async def test_a_file_that_was_written_into_has_changed_even_if_only_the_time_of_change_shows_it(
    claim: Path,
) -> None:
    spec, path = {"claimName": "claim", "path": "in"}, claim / "in" / "a.jsonl"
    async with open_input(spec, context_of(claim)) as source:
        plan = source.plan()
        before = path.stat().st_ctime_ns
        while path.stat().st_ctime_ns == before:
            _write_again(path, b"[7]")
        with pytest.raises(
            InputError, match=r"changed while it was being read: a\.jsonl is not what it was"
        ):
            source.verify()
    async with open_input(spec, context_of(claim)) as second:
        assert second.abilities.adopt is not None
        second.abilities.adopt(plan)
        assert second.fingerprint != plan.fingerprint
