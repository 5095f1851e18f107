"""The two documents beside the predictions: `run.json` and `manifest.json`."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from inferrun.contract import Contract


class Document(BaseModel):
    """JSON with Kubernetes' camel case."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    def text(self) -> bytes:
        """As it stands on disk."""
        return self.model_dump_json(by_alias=True, indent=1).encode() + b"\n"


class RunDocument(Document):
    """What every attempt of a run must agree on."""

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
    """Counts, which add up."""

    total: int
    completed: int
    failed: int


class Manifest(Document):
    """The proof that a run is whole."""

    inferrun: Literal["v1"] = "v1"
    run_id: str
    job_name: str
    model_name: str
    model_url: str
    fingerprint: str
    records: ManifestRecords
    parts: tuple[ManifestPart, ...]


def run_id_of(contract: Contract) -> str:
    """The run's own UID; contracts of the Krateo controller have only the job's."""
    return contract.run_id or contract.job_id


def read_run(path: Path) -> RunDocument | None:
    """The document at a path, or None; raises ValueError (pydantic's) where it is another kind of file."""
    try:
        return RunDocument.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
