"""The output store `s3`: the objects of a run in a bucket, committed by conditional writes (`If-None-Match: *`), and the
results that an ended run has there.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from inferrun.contract import InputRun
from inferrun.plugins import InputError, OutputError, OutputStore, StorageObject, StoreContext
from inferrun.plugins.storage import read_spec
from runner.stores.run_folder.results import FolderResults, StoredResults
from runner.stores.run_folder.store import RunFolder
from runner.stores.s3.bucket import open_bucket
from runner.stores.s3.spec import S3OutputSpec


@asynccontextmanager
async def open_output(spec: StorageObject, context: StoreContext) -> AsyncIterator[OutputStore]:
    """Open the label `s3` under `output`."""
    wanted = read_spec(spec, S3OutputSpec, field="output.s3")
    record_format = context.format_named(wanted.format, "output.s3.format")
    folder = context.endpoints_dir / "output"
    async with open_bucket(wanted, folder, context.limits, side="output", error=OutputError) as bucket:
        root = f"s3://{wanted.bucket}"
        with closing(
            RunFolder(bucket, record_format, context, wanted, label="output.s3", root=root, path=wanted.path)
        ) as store:
            yield store


@asynccontextmanager
async def open_results(spec: StorageObject, run: InputRun, context: StoreContext) -> AsyncIterator[StoredResults]:
    """Open what another run has stored."""
    wanted = read_spec(spec, S3OutputSpec, field="inputRun.output.s3")
    folder = context.endpoints_dir / "input"
    async with open_bucket(wanted, folder, context.limits, side="inputRun.output", error=InputError) as bucket:
        root = f"s3://{wanted.bucket}"
        yield FolderResults(bucket, run, context, root=root, path=wanted.path, form=wanted.format)
