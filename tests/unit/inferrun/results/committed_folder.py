"""The output of a run as the runner commits it, and the status of that run."""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from inferrun import Contract, dump_contract
from inferrun.manifest import Manifest, ManifestPart, ManifestRecords, StoredFile

JOB = "inf-sums-5be07ada"


def commit_folder(
    folder: Path,
    parts: Iterable[tuple[bytes, int, int]],
    *,
    output: Mapping[str, Any],
    form: str = "jsonl",
    given: Mapping[str, Any] | None = None,
) -> dict[str, Any]:  # Any: JSON
    """Write parts, each with its numbers of records and of failed ones, to the run's folder, and
    return the status of the run.

    `output` is the storage object by label, and `given` that of the input. There are no error
    files.
    """
    (folder / JOB / "predictions").mkdir(parents=True)
    listed: list[ManifestPart] = []
    for number, (content, records, failed) in enumerate(parts):
        name = f"predictions/part-{number:06}.{form}"
        (folder / JOB / name).write_bytes(content)
        stored = StoredFile(
            file=name, bytes=len(content), sha256=hashlib.sha256(content).hexdigest()
        )
        first = sum(part.records for part in listed)
        listed.append(
            ManifestPart(**stored.model_dump(), first=first, records=records, failed=failed)
        )
    total, failed = (sum(getattr(part, name) for part in listed) for name in ("records", "failed"))
    manifest = Manifest(
        run_id="uid",
        job_name=JOB,
        model_name="sum",
        model_url="http://sum",
        contract_sha256="",
        runner_version="0.1.0",
        fingerprint="",
        records=ManifestRecords(total=total, completed=total - failed, failed=failed),
        parts=tuple(listed),
    ).text()
    (folder / JOB / "manifest.json").write_bytes(manifest)
    contract = dump_contract(
        Contract(
            job_id="uid", run_id="uid", job_name=JOB, input=dict(given or {}), output=dict(output)
        )
    )
    return {
        "phase": "Succeeded",
        "contract": base64.b64encode(contract.encode()).decode(),
        "output": {"location": JOB, "manifest": "", "sha256": hashlib.sha256(manifest).hexdigest()},
    }
