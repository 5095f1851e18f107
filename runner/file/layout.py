"""Where a run's output lies on the claim. Names only.

    <path>/<jobName>/
        run.json                                   which run, which input, how it is cut: written first, once
        predictions/part-000000-000000000000.jsonl one per chunk: its number, and the index of its first record
        manifest.json                              the commit: with it the run is whole, without it it is not
        .attempts/<Pod>/                           what is not committed; removed with the commit

`cat <path>/<jobName>/predictions/*` gives all predictions in the input's order. Nothing that has its final name ever changes.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_PART = re.compile(r"part-(\d{6,})-(\d{12,})\.")


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder of one run."""

    folder: Path
    suffix: str

    @property
    def run(self) -> Path:
        """What all attempts agree on."""
        return self.folder / "run.json"

    @property
    def manifest(self) -> Path:
        """The commit."""
        return self.folder / "manifest.json"

    @property
    def predictions(self) -> Path:
        """The folder of the committed chunks."""
        return self.folder / "predictions"

    @property
    def attempts(self) -> Path:
        """The folder of what is not committed."""
        return self.folder / ".attempts"

    def part(self, chunk: int, first: int) -> Path:
        """The file of a chunk whose first record has index `first`."""
        return self.predictions / f"part-{chunk:06}-{first:012}{self.suffix}"

    def parts(self) -> list["Part"]:
        """The committed chunks in order."""
        found = ((path, _PART.match(path.name)) for path in self.predictions.iterdir())
        return sorted(Part(chunk=int(match[1]), first=int(match[2]), path=path) for path, match in found if match)


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A committed chunk, as its name tells it."""

    chunk: int
    first: int
    path: Path
