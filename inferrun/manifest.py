"""The manifest that commits a run: which parts its output has. Pure.

The runner writes it, and everything that reads results begins with it: a part that it does not list
is not part of the output.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, Literal

from pydantic import Field, TypeAdapter

from inferrun.camel_case import CamelCase
from inferrun.plugins import NO_USAGE, CommittedRun, Output, Skipped, TokenUsage

FILE_NAME: Final = r"[^/\x00.][^/\x00]*"
"""Whoever can write to the store may write a document: it must not name a file of another run."""

_LONGEST_PATH: Final = 4096
"""Linux's PATH_MAX."""

_SHOWN: Final = 1024
"""Maximum length of a location in the status."""


class Document(CamelCase):
    """JSON in Kubernetes' camel case."""

    def text(self) -> bytes:
        """Return the content of the file."""
        return self.model_dump_json(by_alias=True, indent=1, exclude_none=True).encode() + b"\n"


class StoredFile(Document):
    """A file of the output, relative to the run's folder."""

    file: str = Field(pattern=f"^(predictions|errors)(/{FILE_NAME})+$", max_length=_LONGEST_PATH)
    bytes: int
    sha256: str


class ManifestPart(StoredFile):
    """One committed chunk: the file of its results, and the file of its errors if there are any."""

    first: int
    records: int
    failed: int = 0
    errors: StoredFile | None = None


class ResultColumn(Document):
    """A column of the results, for people and programs without Arrow."""

    name: str
    type: str
    role: str


class ManifestRecords(Document):
    """The record counts; `completed + failed` equals `total`."""

    total: int
    completed: int
    failed: int


class Manifest(Document):
    """The commit of a run."""

    inferrun: Literal["v1"] = "v1"
    run_id: str
    job_name: str
    model_name: str
    model_url: str
    model_version: str | None = None
    """With `serviceRef`, the revision of the object."""

    protocol: str | None = None
    contract_sha256: str
    """Digest of the contract of the attempt that made the commit, as it is in the run's
    ConfigMap."""

    runner_version: str
    fingerprint: str
    retry_of: str | None = None
    """UID of the run whose predictions this output contains, too."""

    records: ManifestRecords
    usage: TokenUsage | None = None
    skipped: tuple[Skipped, ...] | None = None
    columns: tuple[ResultColumn, ...] | None = None
    """The columns of all parts, if they are tables."""

    parts: tuple[ManifestPart, ...]

    def committed_run(self, *, location: str, manifest: str, content: bytes) -> CommittedRun:
        """Return the result of the run; `manifest` is where this document is, and `content` what is
        stored there."""
        records = self.records
        return CommittedRun(
            total=records.total,
            completed=records.completed,
            failed=records.failed,
            output=Output(
                location=location[:_SHOWN],
                manifest=manifest[:_SHOWN],
                sha256=hashlib.sha256(content).hexdigest(),
            ),
            usage=self.usage or NO_USAGE,
            skipped=self.skipped or (),
        )


class AbortedRun(Document):
    """Takes the place of the manifest of a run that failed without a commit: no attempt can commit
    it later."""

    inferrun: Literal["v1"] = "v1"
    run_id: str
    job_name: str
    aborted: Literal[True] = True


ENDED_RUN: TypeAdapter[Manifest | AbortedRun] = TypeAdapter(Manifest | AbortedRun)
"""What `manifest.json` contains."""


def fingerprint_of_objects(listed: Iterable[tuple[str, int, str]]) -> str:
    """Return what identifies an input of objects with these keys, sizes and ETags."""
    text = "\n".join(f"{key}\t{size}\t{tag}" for key, size, tag in listed)
    return "objects-sha256:" + hashlib.sha256(text.encode()).hexdigest()
