"""Input from objects: one object, the objects below a prefix, or those that match a pattern, sorted
by key.

Objects are read in blocks and never modified. Their keys, sizes and ETags form the fingerprint. A
block is read only if its object has the ETag of the list, so the objects need not be listed again
before the commit.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from inferrun.formats.dataset import Dataset, dataset_of, find, split_pattern
from inferrun.manifest import fingerprint_of_objects
from inferrun.plugins import InputError, PlannedObject, Source, StorageObject, StoreContext
from inferrun.plugins.storage import read_spec
from inferrun.stores import ObjectStorage
from inferrun_runner.stores.block_cache import CachedFile, RemoteFile, cached
from inferrun_runner.stores.compression import decompressed
from inferrun_runner.stores.dataset import OpenedDataset, opened_format
from inferrun_runner.stores.file_ranges import FileRanges
from inferrun_runner.stores.objects.bucket import Bucket, open_bucket
from inferrun_runner.stores.objects.cloud import FindCloud, Mount, Wanted
from inferrun_runner.stores.run_folder.layout import is_partitioned

_KEYS_SHOWN = 5


@asynccontextmanager
async def open_objects(
    model: type[Wanted], find_cloud: FindCloud[Wanted], spec: StorageObject, context: StoreContext
) -> AsyncIterator[Source]:
    """Open a label of objects under `input`; `model` is its storage object, `find_cloud` says how
    it is reached."""
    field = f"input.{model.label}"
    wanted = read_spec(spec, model, field=field)
    record_format = opened_format(wanted, context, field=field)
    mount = Mount(context.endpoints_dir / "input", field, InputError)
    async with open_bucket(wanted, find_cloud, mount, context.limits) as bucket:
        folder, found = await asyncio.to_thread(
            _find, bucket, wanted, suffixes=record_format.suffixes
        )
        files = [
            RemoteFile(
                one.name, one.size, partial(bucket.read_range, folder + one.name, tag=one.tag)
            )
            for one in found.objects
        ]

        def fingerprint_of(objects: Sequence[PlannedObject]) -> str:
            return fingerprint_of_objects((folder + one.name, one.size, one.tag) for one in objects)

        with (
            cached(files, context) as blocks,
            decompressed(
                blocks, context, suffixes=record_format.suffixes, encoding_of=CachedFile.encoding
            ) as readable,
        ):
            dataset = OpenedDataset(
                found,
                {one.name: one for one in readable},
                fingerprint_of,
                None,
                wanted,
                field,
                is_partitioned=is_partitioned(context.contract),
            )
            yield FileRanges(dataset, record_format=record_format, limits=context.limits)


def _find(bucket: Bucket, wanted: ObjectStorage, *, suffixes: Sequence[str]) -> tuple[str, Dataset]:
    """Return the folder, whose name is empty or ends with "/", and what is read of it."""
    base, pattern = split_pattern(wanted.path)
    if not pattern and not base.endswith("/") and (one := bucket.head(base)) is not None:
        folder, slash, name = base.rpartition("/")
        return folder + slash, dataset_of(PlannedObject(name, one.size, one.tag))
    folder = f"{base.rstrip('/')}/" if base else ""
    # Consoles create an object for the folder itself, whose key is the prefix.
    below = [one for one in bucket.list_below(folder) if f"{one.name}/" != folder]
    names = (replace(one, name=one.name.removeprefix(folder)) for one in below)
    field = f"input.{wanted.label}.path"
    dataset = find(
        names, pattern=pattern, suffixes=suffixes, field=field, is_stated=wanted.states_format
    )
    where = (
        f"{field}: {wanted.root}/{wanted.path} {'matches' if pattern else 'is no object, and has'}"
    )
    contents = f"contains {', '.join(one.name for one in below[:_KEYS_SHOWN]) or 'nothing'}"
    return folder, dataset.checked(
        suffixes=suffixes, allow_empty=wanted.allow_empty, where=where, contents=contents
    )
