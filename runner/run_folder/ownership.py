"""Whose output a folder is, and how its run ended. Pure: the stores read and write."""

import hashlib
from dataclasses import dataclass

from inferrun.plugins import CommittedRun, Contract, Counts, Output, OutputError
from runner.run_folder.documents import ENDED_RUN, AbortedRun, Manifest, run_id_of

_CHARACTERS = 1024
"""Maximum length of a location in the status."""


class Aborted(OutputError):
    """The run was aborted, and can never be committed."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder or prefix of one run, as its messages name it."""

    label: str
    """The field of the contract, such as `output.file`."""

    location: str

    contract: Contract

    def check_owner(self, run_id: str) -> None:
        """Raise OutputError if a document belongs to another run."""
        if run_id != run_id_of(self.contract):
            raise OutputError(
                f"{self.label}: {self.location} belongs to another run ({run_id}); use another output path"
            )

    def check_complete(self, manifest: Manifest, counts: Counts) -> None:
        """Raise OutputError if the committed chunks do not have all results."""
        stored = sum(part.records for part in manifest.parts)
        failed = sum(part.failed for part in manifest.parts)
        if (stored, failed) != (counts.completed + counts.failed, counts.failed):
            raise OutputError(
                f"{self.label}: {self.location} contains {stored} results with {failed} errors, expected {counts.total} with "
                f"{counts.failed}; the run was not "
                "committed; do not modify its files during a run"
            )

    def committed_run(self, content: bytes) -> CommittedRun:
        """Return the run that `manifest.json` commits.

        Raises Aborted, OutputError if it belongs to another run, or ValueError (pydantic's) if it is something else.
        """
        document = ENDED_RUN.validate_json(content)
        self.check_owner(document.run_id)
        if isinstance(document, AbortedRun):
            raise Aborted(
                f"{self.label}: the run in {self.location} has failed and was aborted; start a new run",
                is_retryable=False,
            )
        output = Output(
            location=self.location[:_CHARACTERS],
            manifest=f"{self.location}/manifest.json"[:_CHARACTERS],
            sha256=hashlib.sha256(content).hexdigest(),
        )
        return document.committed_run(output)

    def abort(self) -> AbortedRun:
        """Return the document that takes the manifest's place."""
        return AbortedRun(run_id=run_id_of(self.contract), job_name=self.contract.job_name)
