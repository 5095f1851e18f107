"""The two JSON documents of a run's output folder: `run.json` and `manifest.json`."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.alias_generators import to_camel

from inferrun.plugins import Contract


class Document(BaseModel):
    """JSON in Kubernetes' camel case."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    def text(self) -> bytes:
        """Return the content of the file."""
        return self.model_dump_json(by_alias=True, indent=1).encode() + b"\n"


class RunDocument(Document):
    """What all attempts of a run must agree on."""

    inferrun: Literal["v1"] = "v1"
    run_id: str
    job_name: str
    fingerprint: str
    chunk_size: int
    total: int


class ManifestPart(Document):
    """One committed chunk."""

    file: str
    first: int
    records: int
    bytes: int
    sha256: str


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
    fingerprint: str
    records: ManifestRecords
    parts: tuple[ManifestPart, ...]


class AbortedRun(Document):
    """Takes the place of the manifest of a run that failed without a commit: no attempt can commit it later."""

    inferrun: Literal["v1"] = "v1"
    run_id: str
    job_name: str
    aborted: Literal[True] = True


ENDED_RUN: TypeAdapter[Manifest | AbortedRun] = TypeAdapter(Manifest | AbortedRun)
"""What `manifest.json` contains."""


def run_id_of(contract: Contract) -> str:
    """Return the run's own UID; the Krateo controller's contracts have only the job's."""
    return contract.run_id or contract.job_id


def read_run(path: Path) -> RunDocument | None:
    """Read a run document; None if there is no such file. Raises ValueError (pydantic's) if it is something else."""
    try:
        return RunDocument.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
