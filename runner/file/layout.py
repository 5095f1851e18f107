"""The files and folders of a run's output on the claim. Names only, no content.

    <path>/<jobName>/
        run.json                                   identifies the run and its input plan; written first, once
        predictions/part-000000-000000000000.jsonl one per chunk: number of the chunk, index of its first record;
                                                   the extension is that of the format
        errors/part-000000-000000000000.jsonl      its failed records, if there are any
        manifest.json                              commits the run; without it the output is incomplete
        .commits/000000.json                       commits a chunk; removed by the manifest's commit
        .attempts/<Pod>/                           uncommitted work; removed by the manifest's commit
        .claims/000000-000.json                    of a run with several Pods: which one predicts a chunk; removed in the end
        .members/<Pod>.json                        and their signs of life; removed in the end

`cat <path>/<jobName>/predictions/*` prints all predictions in input order. A file that has its final name never changes.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """The output folder of one run."""

    folder: Path
    suffix: str
    """The extension of the results."""

    @property
    def run(self) -> Path:
        """The document that all attempts agree on."""
        return self.folder / "run.json"

    @property
    def manifest(self) -> Path:
        """The commit of the run."""
        return self.folder / "manifest.json"

    @property
    def predictions(self) -> Path:
        """The folder of the committed chunks."""
        return self.folder / "predictions"

    @property
    def attempts(self) -> Path:
        """The folder of uncommitted work."""
        return self.folder / ".attempts"

    @property
    def errors(self) -> Path:
        """The folder of the errors in the committed chunks."""
        return self.folder / "errors"

    @property
    def commits(self) -> Path:
        """The folder of the chunks' commits."""
        return self.folder / ".commits"

    @property
    def claims(self) -> Path:
        """The folder of the chunks' claims."""
        return self.folder / ".claims"

    @property
    def members(self) -> Path:
        """The folder of the Pods' signs of life."""
        return self.folder / ".members"

    def commit(self, chunk: int) -> Path:
        """Return the commit of a chunk."""
        return self.commits / f"{chunk:06}.json"

    def part_name(self, chunk: int, first: int) -> str:
        """Return the name, without an extension, of the files of a chunk whose first record has the index `first`."""
        return f"part-{chunk:06}-{first:012}"
