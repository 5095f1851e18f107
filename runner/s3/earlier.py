"""Reads the objects of an ended run in a bucket."""

from pathlib import PurePosixPath

from inferrun.plugins import RecordFormat, RetriedRun
from runner.run_folder.earlier import Documents, EarlierRun, earlier_run
from runner.s3.bucket import Bucket


def read_earlier(
    bucket: Bucket, path: str, run: RetriedRun, *, record_format: RecordFormat, location: str
) -> EarlierRun | None:
    """Return what the run has committed below `path`. Raises OutputError."""
    prefix = f"{path.rstrip('/')}/{PurePosixPath(run.job_name).name}"

    def read(name: str) -> bytes | None:
        return bucket.read(f"{prefix}/{name}")

    documents = Documents(
        run=read("run.json"),
        manifest=read("manifest.json"),
        commits=lambda: filter(None, (bucket.read(one.key) for one in bucket.list_below(f"{prefix}/commits/"))),
    )
    return earlier_run(documents, run, record_format=record_format, read=read, location=location)
