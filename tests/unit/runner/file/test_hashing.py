"""Reading and hashing a file in one pass."""

import hashlib
from pathlib import Path

import pytest

from runner.file.hashing import HashingReader


@pytest.mark.parametrize("lines", [0, 1, 50_000])
def test_size_and_hash_are_those_of_the_whole_file(tmp_path: Path, lines: int) -> None:
    content = b"".join(b"line %d\n" % number for number in range(lines))
    (tmp_path / "part").write_bytes(content)
    with HashingReader(tmp_path / "part") as reader:
        assert reader.file.readline() == content[:7]
        assert reader.finish() == (len(content), hashlib.sha256(content).hexdigest())
