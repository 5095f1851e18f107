"""The results of an ended run in a bucket."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from inferrun.contract import InputRun
from inferrun.plugins import InputError, StorageObject, StoreContext
from inferrun.plugins.storage import read_spec
from runner.stores.block_cache import BLOCK
from runner.stores.run_folder.results import FolderResults, StoredResults
from runner.stores.s3.bucket import Bucket, open_bucket
from runner.stores.s3.spec import S3OutputSpec


class CommittedObjects:
    """The objects of a bucket."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def read(self, name: str) -> bytes:
        """Return the content of a small object."""
        content = self._bucket.read(name)
        if content is None:
            raise FileNotFoundError(name)
        return content

    def pieces(self, name: str, size: int) -> Iterator[bytes]:
        """Yield the content of an object, in ranges."""
        found = self._bucket.head(name)
        if found is None or found.size != size:
            raise FileNotFoundError(name)
        for start in range(0, size, BLOCK):
            yield self._bucket.read_range(name, start, min(BLOCK, size - start))


@asynccontextmanager
async def open_results(spec: StorageObject, run: InputRun, context: StoreContext) -> AsyncIterator[StoredResults]:
    """Open what the label `s3` has stored."""
    wanted = read_spec(spec, S3OutputSpec, field="inputRun.output.s3")
    folder = context.endpoints_dir / "input"
    async with open_bucket(wanted, folder, context.limits, side="inputRun.output", error=InputError) as bucket:
        root = f"s3://{wanted.bucket}"
        yield FolderResults(CommittedObjects(bucket), run, context, root=root, path=wanted.path, form=wanted.format)
