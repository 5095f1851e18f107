"""The output store `file`: the folder of a run on a claim, and the results that an ended run has
there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from inferrun.contract import InputRun
from inferrun.plugins import InputError, OutputStore, StorageObject, StoreContext
from inferrun.plugins.storage import read_spec
from inferrun.stores import FileStorage
from inferrun_runner.stores.file.claim import ClaimFiles
from inferrun_runner.stores.run_folder.results import FolderResults, StoredResults
from inferrun_runner.stores.run_folder.store import RunFolder


@asynccontextmanager
async def open_output(spec: StorageObject, context: StoreContext) -> AsyncIterator[OutputStore]:
    """Open the label `file` under `output`."""
    wanted = read_spec(spec, FileStorage, field="output.file")
    record_format = context.format_named(wanted.format, "output.file.format")
    files = ClaimFiles(context.output_dir, wanted)
    with closing(RunFolder(files, record_format, context, wanted, label="output.file")) as store:
        yield store


@asynccontextmanager
async def open_results(
    spec: StorageObject, run: InputRun, context: StoreContext
) -> AsyncIterator[StoredResults]:
    """Open what another run has stored, on the claim that is mounted where inputs are."""
    wanted = read_spec(spec, FileStorage, field="inputRun.output.file")
    files = ClaimFiles(context.input_dir, wanted, side="inputRun.output", error=InputError)
    yield FolderResults(files, run, context, spec=wanted)
