"""Results on the Pod's disk before they are committed."""

import gc
from functools import partial
from pathlib import Path

import pyarrow
import pytest

from inferrun.formats.arrow.format import ARROW, Arrow
from inferrun.formats.parquet.format import PARQUET, Parquet
from inferrun.formats.result_schema import result_schema
from inferrun.formats.table_results import PIECE_BYTES
from inferrun.plugins import Batch, Chunk, ChunkCommit, JsonRecords, Results
from runner.stores.run_folder.spool import PartDraft, Spool, SpooledChunk
from tests.unit.runner.stores.contexts import context_of

SCHEMA = result_schema(
    key=None, copied=(), predicted=pyarrow.json_(), types={}, is_flat=False, field="output.file"
).arrow


def store(draft: PartDraft) -> ChunkCommit:
    raise AssertionError(f"chunk {draft.chunk.index} is committed")


@pytest.mark.parametrize("form", [PARQUET, ARROW], ids=lambda form: form.results_suffix)
async def test_a_chunk_that_is_given_up_leaves_no_file_and_raises_nothing_when_it_is_destroyed(
    form: Parquet | Arrow, tmp_path: Path
) -> None:
    spool = Spool(context_of(tmp_path), foreign="")
    chunk = SpooledChunk(spool, Chunk(0, 0, 0, 1, 0, 1), partial(form.writer, schema=SCHEMA), store)
    record = JsonRecords([b'"%b"' % (b"x" * PIECE_BYTES)])
    await chunk.write(Batch(first=0, records=record), Results(record))
    assert spool.folder.exists()
    spool.close()
    del chunk
    spool.chunks.clear()
    gc.collect()
    assert not spool.folder.exists()
