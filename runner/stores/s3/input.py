"""The input store `s3`: one object, or all objects below a prefix that have the format's extension, sorted by key.

Objects are read in ranges and never modified. Their keys, sizes and ETags form the fingerprint.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from inferrun.manifest import fingerprint_of_objects
from inferrun.plugins import InputError, Skipped, Source, StorageObject, StoreContext
from inferrun.plugins.storage import read_spec
from runner.stores.compression import decompressed
from runner.stores.file_ranges import FileRanges
from runner.stores.ranged_reader import RangedFile
from runner.stores.run_folder.files import ListedFile
from runner.stores.s3.bucket import Bucket, open_bucket
from runner.stores.s3.spec import S3Spec
from runner.stores.skipped_files import NESTED_FOLDER, listed, why_skipped

_KEYS_SHOWN = 5


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `s3` under `input`."""
    wanted = read_spec(spec, S3Spec, field="input.s3")
    record_format = context.format_named(wanted.format, "input.s3.format")
    folder = context.endpoints_dir / "input"
    async with open_bucket(wanted, folder, context.limits, side="input", error=InputError) as bucket:

        def find() -> tuple[Sequence[ListedFile], tuple[Skipped, ...]]:
            return _find(bucket, wanted, suffix=record_format.suffixes[0])

        found, skipped = await asyncio.to_thread(find)
        files = [
            RangedFile(one.name.rpartition("/")[2], one.size, partial(bucket.read_range, one.name)) for one in found
        ]
        with decompressed(files, context) as readable:
            yield FileRanges(
                readable,
                fingerprint=_fingerprint_of(found),
                record_format=record_format,
                limits=context.limits,
                current_fingerprint=lambda: _fingerprint_of(find()[0]),
                skipped=skipped,
            )


def _find(bucket: Bucket, wanted: S3Spec, *, suffix: str) -> tuple[Sequence[ListedFile], tuple[Skipped, ...]]:
    if not wanted.path.endswith("/") and (one := bucket.head(wanted.path)) is not None:
        return [one], ()
    prefix = f"{wanted.path.rstrip('/')}/"
    # Consoles create an object for the folder itself, whose key is the prefix.
    below = [one for one in bucket.list_below(prefix) if f"{one.name}/" != prefix]
    reasons: dict[str, str] = {}
    for one in below:
        name, slash, _ = one.name.removeprefix(prefix).partition("/")
        reasons[name + slash] = NESTED_FOLDER if slash else why_skipped(name, suffix=suffix)
    found = [one for one in below if not reasons.get(one.name.removeprefix(prefix), NESTED_FOLDER)]
    if not found:
        names = ", ".join(one.name for one in below[:_KEYS_SHOWN]) or "nothing"
        raise InputError(
            f"input.s3.path: {wanted.location} is no object, and there is no *{suffix} below it; it contains {names}"
        )
    return found, listed({name.removesuffix("/"): why for name, why in reasons.items() if why})


def _fingerprint_of(found: Sequence[ListedFile]) -> str:
    return fingerprint_of_objects((one.name, one.size, one.tag) for one in found)
