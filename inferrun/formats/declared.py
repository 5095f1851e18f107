"""What the storage object of an input says about its format, for the runner as for those who join
results with their input."""

from inferrun.formats.csv.format import Csv
from inferrun.formats.jsonl.format import Jsonl
from inferrun.plugins import RecordFormat
from inferrun.stores.dataset import DatasetStorage


def as_declared(found: RecordFormat, storage: DatasetStorage) -> RecordFormat:
    """Return the format with what the storage object says about CSV and columns that are
    missing."""
    if storage.missing_columns == "Null" and isinstance(found, Jsonl):
        return found.with_nulls()
    return (
        found.with_dialect(storage.csv)
        if storage.csv is not None and isinstance(found, Csv)
        else found
    )
