"""Output to objects: those of a run, committed by conditional writes, and the results that an ended
run has there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from inferrun.contract import InputRun
from inferrun.plugins import InputError, OutputError, OutputStore, StorageObject, StoreContext
from inferrun.plugins.storage import read_spec
from inferrun_runner.stores.objects.bucket import open_bucket
from inferrun_runner.stores.objects.cloud import FindCloud, Mount, Wanted
from inferrun_runner.stores.run_folder.results import FolderResults, StoredResults
from inferrun_runner.stores.run_folder.store import RunFolder


@asynccontextmanager
async def open_folder(
    model: type[Wanted], find_cloud: FindCloud[Wanted], spec: StorageObject, context: StoreContext
) -> AsyncIterator[OutputStore]:
    """Open a label of objects under `output`; `model` is its storage object, `find_cloud` says how
    it is reached."""
    field = f"output.{model.label}"
    wanted = read_spec(spec, model, field=field)
    record_format = context.format_named(wanted.format, f"{field}.format")
    mount = Mount(context.endpoints_dir / "output", field, OutputError)
    async with open_bucket(wanted, find_cloud, mount, context.limits) as bucket:
        with closing(RunFolder(bucket, record_format, context, wanted, label=field)) as store:
            yield store


@asynccontextmanager
async def open_folder_results(
    model: type[Wanted],
    find_cloud: FindCloud[Wanted],
    spec: StorageObject,
    run: InputRun,
    context: StoreContext,
) -> AsyncIterator[StoredResults]:
    """Open what another run has stored."""
    field = f"inputRun.output.{model.label}"
    wanted = read_spec(spec, model, field=field)
    mount = Mount(context.endpoints_dir / "input", field, InputError)
    async with open_bucket(wanted, find_cloud, mount, context.limits) as bucket:
        yield FolderResults(bucket, run, context, spec=wanted)
