"""The output store `file`: the folder of a run on a claim."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from inferrun.plugins import OutputStore, StorageObject, StoreContext
from inferrun.plugins.storage import read_spec
from runner.stores.file.claim import ClaimFiles
from runner.stores.file.spec import FileOutputSpec
from runner.stores.run_folder.store import RunStore


@asynccontextmanager
async def open_output(spec: StorageObject, context: StoreContext) -> AsyncIterator[OutputStore]:
    """Open the label `file` under `output`."""
    wanted = read_spec(spec, FileOutputSpec, field="output.file")
    record_format = context.format_named(wanted.format, "output.file.format")
    files = ClaimFiles(context.output_dir, wanted)
    with closing(
        RunStore(files, record_format, context, wanted, label="output.file", root=wanted.claim_name, path=wanted.path)
    ) as store:
        yield store
