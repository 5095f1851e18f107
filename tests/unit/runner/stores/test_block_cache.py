"""Remote files: each block is downloaded once, those that follow are read ahead, and an error is
not remembered."""

import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferrun.plugins import InputError
from inferrun_runner.stores import block_cache
from inferrun_runner.stores.block_cache import RemoteFile, ReturnedRange, cached
from tests.unit.runner.stores.contexts import context_of


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_cache, "BLOCK", 16)


class Server:
    """Files, and how often each range of them was read."""

    def __init__(self, *contents: bytes) -> None:
        self.contents = contents
        self.reads: Counter[tuple[int, int]] = Counter()
        self.lock = threading.Lock()

    def files(self) -> list[RemoteFile]:
        def file(unit: int) -> RemoteFile:
            return RemoteFile(
                f"{unit}",
                len(self.contents[unit]),
                lambda start, length: ReturnedRange(self.read(unit, start, length)),
            )

        return [file(unit) for unit in range(len(self.contents))]

    def read(self, unit: int, start: int, length: int) -> bytes:
        with self.lock:
            self.reads[unit, start] += 1
        return self.contents[unit][start : start + length]


def test_each_block_is_read_once_however_often_it_is_needed(tmp_path: Path) -> None:
    server = Server(bytes(range(100)), b"", b"small")
    with cached(server.files(), context_of(tmp_path)) as files:
        for _ in range(3):
            assert [file.open().read() for file in files] == list(server.contents)
    assert set(server.reads.values()) == {1}
    assert server.reads.total() == 7 + 1


@settings(
    deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 120), st.integers(0, 120)), max_size=20)
)
def test_a_file_can_be_read_at_any_position(
    tmp_path: Path, places: list[tuple[int, int, int]]
) -> None:
    server = Server(bytes(range(100)), bytes(range(16)), bytes(range(17)))
    with cached(server.files(), context_of(tmp_path, spool_bytes=1024)) as files:
        for unit, start, length in places:
            with files[unit].open() as file:
                file.seek(start)
                assert file.read(length) == server.contents[unit][start : start + length]


def test_few_blocks_of_a_large_file_are_read_that_nobody_asks_for(tmp_path: Path) -> None:
    server = Server(bytes(16 * 100), bytes(16 * 100))
    with cached(server.files(), context_of(tmp_path)) as files, files[0].open() as file:
        for start in (1599, 0, 800, 400):  # the footer of a table, and some of its columns
            file.seek(start)
            file.read(1)
    assert server.reads.total() <= 6


def test_an_error_is_raised_where_its_block_is_needed_and_the_block_is_asked_for_again(
    tmp_path: Path,
) -> None:
    class Failing(Server):
        def read(self, unit: int, start: int, length: int) -> bytes:
            content = super().read(unit, start, length)
            if unit == 1 and self.reads[unit, start] == 1:
                raise InputError("lost")
            return content

    server = Failing(b"first", b"second")
    with cached(server.files(), context_of(tmp_path)) as (first, second):
        assert first.open().read() == b"first"
        with pytest.raises(InputError, match="lost"):
            second.open().read()
        assert second.open().read() == b"second"


def test_the_disk_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_cache, "_BYTES_AHEAD", 128)
    server = Server(bytes(range(256)) * 10)
    with cached(server.files(), context_of(tmp_path, spool_bytes=1024)) as (file,):
        assert file.open().read() == server.contents[0]
        (folder,) = tmp_path.iterdir()
        assert len(list(folder.iterdir())) <= 24
    assert list(tmp_path.iterdir()) == []
