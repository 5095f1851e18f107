"""Input that is spooled to the Pod's disk."""

import hashlib
from pathlib import Path

import pytest

from inferrun.plugins import InputError
from inferrun_runner.stores.input_spool import InputSpool


def test_a_second_try_begins_with_an_empty_file(tmp_path: Path) -> None:
    spool = InputSpool(tmp_path / "rows", limit=6, what="the query returned")
    for content in (b"abcdef", b"xyz"):
        with spool.opened():
            spool.write(content)
    assert (tmp_path / "rows").read_bytes() == b"xyz"
    assert (spool.file.size, spool.digest) == (3, hashlib.sha256(b"xyz").hexdigest())


def test_an_input_over_the_limit_is_not_written(tmp_path: Path) -> None:
    spool = InputSpool(
        tmp_path / "rows", limit=6, what="the query returned", fix="limit the query, or "
    )
    with spool.opened(), pytest.raises(InputError) as raised:
        spool.write(b"abcdefg")
    assert str(raised.value) == (
        "the query returned more than 6 bytes; limit the query, or set a larger limits.spool in the config"
    )
    assert not raised.value.is_retryable
    assert (tmp_path / "rows").read_bytes() == b""


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_full_disk_is_an_input_error_whatever_the_size_of_the_pieces(size: int) -> None:
    spool = InputSpool(Path("/dev/full"), limit=1 << 30, what="the query returned")
    with (
        pytest.raises(InputError, match="cannot spool the input to /dev: No space left on device"),
        spool.opened(),
    ):
        spool.write(bytes(size))
