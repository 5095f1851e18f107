"""Output to objects: those of a run, committed by conditional writes, and the results that an ended run has there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from inferrun.contract import InputRun
from inferrun.plugins import InputError, OutputError, OutputStore, StorageObject, StoreContext
from inferrun.plugins.storage import read_spec
from runner.stores.objects.bucket import open_bucket
from runner.stores.objects.spec import ObjectSpec
from runner.stores.run_folder.layout import ResultSpec
from runner.stores.run_folder.results import FolderResults, StoredResults
from runner.stores.run_folder.store import RunFolder


class ObjectOutputSpec(ObjectSpec, ResultSpec):
    """Where results are stored."""


@asynccontextmanager
async def open_folder(
    model: type[ObjectOutputSpec], spec: StorageObject, context: StoreContext
) -> AsyncIterator[OutputStore]:
    """Open a label of objects under `output`; `model` is its storage object."""
    field = f"output.{model.label}"
    wanted = read_spec(spec, model, field=field)
    record_format = context.format_named(wanted.format, f"{field}.format")
    secret = context.endpoints_dir / "output"
    async with open_bucket(wanted, secret, context.limits, side="output", error=OutputError) as bucket:
        with closing(
            RunFolder(bucket, record_format, context, wanted, label=field, root=wanted.root, path=wanted.path)
        ) as store:
            yield store


@asynccontextmanager
async def open_folder_results(
    model: type[ObjectOutputSpec], spec: StorageObject, run: InputRun, context: StoreContext
) -> AsyncIterator[StoredResults]:
    """Open what another run has stored."""
    field = f"inputRun.output.{model.label}"
    wanted = read_spec(spec, model, field=field)
    secret = context.endpoints_dir / "input"
    async with open_bucket(wanted, secret, context.limits, side="inputRun.output", error=InputError) as bucket:
        yield FolderResults(bucket, run, context, root=wanted.root, path=wanted.path, form=wanted.format)
