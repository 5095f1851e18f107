"""The context of a store whose claims, Secrets and disk are in one folder."""

from pathlib import Path

from inferrun.formats.jsonl.format import JSONL
from inferrun.plugins import Contract, Limits, RecordFormat, StoreContext
from inferrun_runner.stores.services import RunnerServices


def context_of(
    folder: Path,
    *,
    record_format: RecordFormat = JSONL,
    pod: str = "pod",
    spool: Path | None = None,
    spool_bytes: int = 1 << 20,
) -> StoreContext:
    limits = Limits(spool_bytes=spool_bytes)
    return StoreContext(
        contract=Contract(job_id="uid", job_name="inf-a"),
        limits=limits,
        services=RunnerServices(limits, spool or folder),
        pod_uid=pod,
        input_dir=folder,
        output_dir=folder,
        endpoints_dir=folder,
        spool_dir=spool or folder,
        format_named=lambda _name, _field: record_format,
    )
