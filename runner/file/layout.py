"""The files and folders of a run's output on the claim. Names only, no content.

    <path>/<jobName>/
        run.json                                   identifies the run and its input plan; written first, once
        predictions/part-000000-000000000000.jsonl one per chunk: number of the chunk, index of its first record
        manifest.json                              commits the run; without it the output is incomplete
        .attempts/<Pod>/                           uncommitted work; removed by the commit

`cat <path>/<jobName>/predictions/*` prints all predictions in input order. A file that has its final name never changes.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_PART = re.compile(r"part-(\d{6,})-(\d{12,})\.")


@dataclass(frozen=True, slots=True)
class Layout:
    """The output folder of one run."""

    folder: Path
    suffix: str

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

    def part(self, chunk: int, first: int) -> Path:
        """Return the file of a chunk whose first record has the index `first`."""
        return self.predictions / f"part-{chunk:06}-{first:012}{self.suffix}"

    def parts(self) -> list["Part"]:
        """List the committed chunks in order."""
        found = ((path, _PART.match(path.name)) for path in self.predictions.iterdir())
        return sorted(Part(chunk=int(match[1]), first=int(match[2]), path=path) for path, match in found if match)


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A committed chunk, as described by its file name."""

    chunk: int
    first: int
    path: Path
