"""Finds the committed output of a run, and reads its manifest."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from inferrun.manifest import Manifest
from inferrun.resources import InferenceRun
from inferrun.results.access import Access, ReadSecret
from inferrun.results.committed import CommittedOutput, committed_output
from inferrun.results.errors import ResultsChanged, ResultsError
from inferrun.results.joining import input_reader
from inferrun.results.stores import PartStore, open_store
from inferrun.results.table import PredictedRows


def read_results(
    run: InferenceRun,
    *,
    directory: Path | str | Mapping[str, Path | str] | None = None,
    credentials: Mapping[str, str] | None = None,
    read_secret: ReadSecret | None = None,
    join_input: bool = False,
) -> PredictedRows:
    """Return the results of a run that has succeeded, which are read when they are used. Raises
    ResultsError.

    `directory`: for the store `file`, where the claim of the output is mounted, or where a copy of
    the run's folder is; or the directories of several claims by their names. `credentials`: for the
    other stores, values by the keys that a Secret for the store has, and `endpoint` of a bucket;
    without them, the environment is used (`AWS_*`, `GOOGLE_*`, `AZURE_*`, `PG*`), and then
    `read_secret`. `join_input` adds the columns of the input, which is read again.
    """
    output = committed_output(run)
    access = Access(
        directory={claim: Path(path) for claim, path in directory.items()}
        if isinstance(directory, Mapping)
        else Path(directory)
        if directory is not None
        else None,
        credentials=credentials or {},
        environment=os.environ,
        read_secret=read_secret,
    )
    store = open_store(output, access)
    manifest = _manifest_of(output, store)
    return PredictedRows(
        store, manifest, read_input=input_reader(output, manifest, access) if join_input else None
    )


def _manifest_of(output: CommittedOutput, store: PartStore) -> Manifest:
    content = store.read_manifest()
    if content is None:
        raise ResultsChanged(
            f"{output.run} has committed its output, but its manifest is not in {store.location}"
        )
    if hashlib.sha256(content).hexdigest() != output.manifest_sha256:
        raise ResultsChanged(
            f"the manifest in {store.location} is not the one that {output.run} committed"
        )
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        raise ResultsError(
            f"the manifest in {store.location} was written by a version that is not known here"
        ) from error
