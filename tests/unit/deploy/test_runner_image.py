"""What the runner's image omits from pyarrow is not needed for columns, Parquet, ORC and zstd."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow

REPOSITORY = Path(__file__).parents[3]

USE = """
import io, os, pyarrow
from pyarrow import orc, parquet
from inferrun.plugins import ArrowRecords
from inferrun.formats.columns import row_texts
from inferrun.formats.orc import ORC, dataset
from inferrun.formats.parquet.format import PARQUET
from inferrun_runner.protocols.tensors.columns import tensor_of
from inferrun_runner.protocols.tensors.datatypes import raw_of
from inferrun_runner.protocols.tensors.signature import TensorSpec
assert pyarrow.__file__.startswith({folder!r}), pyarrow.__file__
table = pyarrow.table({{"a": [1, None, 3], "b": [0.5, 1.5, 2.5]}})
out = io.BytesIO()
parquet.write_table(table, out, compression="zstd")
(batch,) = parquet.ParquetFile(io.BytesIO(out.getvalue())).iter_batches()
assert row_texts(batch) == [b"[1,0.5]", b"[null,1.5]", b"[3,2.5]"]
assert len(raw_of(tensor_of(ArrowRecords(batch), TensorSpec("x"), is_json=False).values, "FP32")) == 24
out = io.BytesIO()
orc.write_table(table, out)
assert dataset.OrcFileFormat().make_fragment(pyarrow.BufferReader(out.getvalue())).to_table() == table
packed = pyarrow.Codec("zstd").compress(b"text", asbytes=True)
assert pyarrow.CompressedInputStream(pyarrow.BufferReader(packed), "zstd").read() == b"text"
os._exit(0)
"""
"""Ends as the runner does: Arrow's threads sometimes abort an interpreter that shuts down
(apache/arrow#34314)."""


def omitted() -> tuple[str, ...]:
    """The patterns of the files that the image omits."""
    dockerfile = (REPOSITORY / "deploy" / "images" / "runner.Dockerfile").read_text()
    (patterns,) = re.findall(r"site-packages/pyarrow \\\n && rm -r (.*) \\\n", dockerfile)
    return tuple(str(patterns).split())


def linked(source: str, target: str) -> None:
    """Link a file, or copy it to another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def test_pyarrow_works_without_the_files_that_the_image_omits(tmp_path: Path) -> None:
    whole = Path(pyarrow.__file__).parent
    for pattern in omitted():
        assert list(whole.glob(pattern)), pattern
    shutil.copytree(
        whole,
        tmp_path / "pyarrow",
        ignore=shutil.ignore_patterns(*omitted(), "__pycache__"),
        copy_function=linked,
    )
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}:{REPOSITORY}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    code = USE.format(folder=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
