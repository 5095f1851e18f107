"""The results of an ended run on a claim, which is mounted where inputs are."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path, PurePosixPath

from inferrun.contract import InputRun
from inferrun.plugins import InputError, StorageObject, StoreContext
from inferrun.plugins.storage import read_spec
from runner.stores.block_cache import BLOCK
from runner.stores.file.beneath import opened_file, opened_folder
from runner.stores.file.spec import FileOutputSpec, FileSpec
from runner.stores.run_folder.results import FolderResults, StoredResults


class MountedFiles:
    """The files below the root of a claim. No link is followed out of it."""

    def __init__(self, root: Path, spec: FileSpec) -> None:
        self._root = root
        self._spec = spec

    def read(self, name: str) -> bytes:
        """Return the content of a small file."""
        return b"".join(self.pieces(name))

    def pieces(self, name: str, size: int = 0) -> Iterator[bytes]:  # noqa: ARG002  the seam's
        """Yield the content of a file."""
        path = PurePosixPath(name)
        with (
            self._errors(),
            opened_folder(self._root, str(path.parent)) as folder,
            opened_file(folder / path.name) as file,
        ):
            while piece := file.read(BLOCK):
                yield piece

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise InputError(
                f"inputRun.output.file: cannot read path {self._spec.path!r} on claim {self._spec.claim_name!r}: "
                f"{error.strerror}; the runner runs as user 65532"
            ) from error


@asynccontextmanager
async def open_results(spec: StorageObject, run: InputRun, context: StoreContext) -> AsyncIterator[StoredResults]:
    """Open what the label `file` has stored."""
    wanted = read_spec(spec, FileOutputSpec, field="inputRun.output.file")
    files = MountedFiles(context.input_dir, wanted)
    yield FolderResults(files, run, context, root=wanted.claim_name, path=wanted.path, form=wanted.format)
