"""The rows of a Delta table at a version, as the protocol defines them. Blocks.

`DeltaTable.to_pyarrow_dataset` of deltalake 1.6 looks for columns by their names only, refuses
deletion vectors, and has no timestamps of Spark (INT96) outside 1677 to 2262; `DeltaTable.scan`
promises no order, which chunks need.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

import pyarrow
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow import dataset, fs, types

from inferrun.plugins import InputError, StoreContext
from inferrun.plugins.limits import MIB
from inferrun_lake.delta_features import has_variant, unreadable
from inferrun_lake.output import table_errors
from inferrun_lake.snapshot import BATCH_ROWS, SnapshotFile, TableSnapshot

_ID = b"delta.columnMapping.id"
_PHYSICAL_NAME = b"delta.columnMapping.physicalName"
_ID_IN_FILE = b"PARQUET:field_id"

_FORMAT: Final = dataset.ParquetFileFormat(
    read_options=dataset.ParquetReadOptions(coerce_int96_timestamp_unit="us")
)
_READING: Final = dataset.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)


def delta_snapshot(
    table: DeltaTable, context: StoreContext, location: str, options: dict[str, str]
) -> TableSnapshot:
    """Return the files of a table, with their rows that are not deleted. Raises InputError before
    any row is read."""

    def refusal(fault: str) -> InputError:
        return InputError(f"input.delta: {location}: {fault}", is_retryable=False)

    if fault := unreadable(table):
        raise refusal(fault)
    logical = pyarrow.schema(table.schema().to_arrow())
    plain = pyarrow.schema([_renamed(field, lambda one: one.name) for field in logical])
    columns = context.services.used_columns(plain, context.columns, name=location)
    for field in table.schema().fields:
        if field.name in columns.names and has_variant(field.type):
            raise refusal(
                f"column {field.name!r} has variants, which are not implemented; read a copy with their to_json"
            )
    adds = pyarrow.table(table.get_add_actions())
    paths, metadata = [unquote(path) for path in adds.column("path").to_pylist()], table.metadata()
    if any(urlsplit(path).scheme or path.startswith("/") for path in paths):
        raise refusal(
            "the table is a shallow clone, with files of another table; read that one, or a deep clone"
        )
    sizes = dict(zip(paths, adds.column("size_bytes").to_pylist(), strict=True))
    storage = fs.PyFileSystem(DeltaStorageHandler(table.table_uri, options, sizes))
    mode = metadata.configuration.get("delta.columnMapping.mode", "none")
    deletions = _deletions(table)

    def file_of(number: int, path: str) -> SnapshotFile:
        fragment = _FORMAT.make_fragment(path, storage)
        constants = {
            name: adds.column("partition")[number][name] for name in metadata.partition_columns
        }
        names = _names_by_id(fragment.physical_schema) if mode == "id" else None

        def name_of(field: pyarrow.Field) -> str:
            known = field.metadata or {}
            if names is None or _ID not in known:
                return (known.get(_PHYSICAL_NAME, b"").decode() if mode == "name" else "") or str(
                    field.name
                )
            # a name that no column has: it was added after the file
            return names.get(known[_ID], f"\0{known[_ID]!r}")

        stored = pyarrow.schema(
            [
                _renamed(logical.field(name), name_of)
                for name in columns.names
                if name not in constants
            ]
        )
        rows, kept = fragment.count_rows(), deletions.pop(path, None)
        if kept is not None:
            kept = pyarrow.concat_arrays(
                [kept, pyarrow.repeat(pyarrow.scalar(value=True), rows - len(kept))]
            )
        left = rows if kept is None else kept.true_count

        def batches() -> Iterator[pyarrow.RecordBatch]:
            first = 0
            with table_errors(InputError, f"input.delta: {path}", options):
                for batch in fragment.to_batches(
                    schema=stored,
                    columns=stored.names,
                    batch_size=max(1, min(BATCH_ROWS, rows * MIB // max(sizes[path], 1))),
                    batch_readahead=1,
                    use_threads=False,
                    fragment_scan_options=_READING,
                ):
                    found = iter(batch.columns)
                    made = pyarrow.RecordBatch.from_arrays(
                        [
                            pyarrow.repeat(constants[one.name], len(batch))
                            if one.name in constants
                            else next(found).view(one.type)
                            for one in columns
                        ],
                        schema=columns,
                    )
                    yield made if kept is None else made.filter(kept.slice(first, len(batch)))
                    first += len(batch)

        return SnapshotFile(path, left, sizes[path], batches)

    files = [
        file_of(number, path)
        for number, path in sorted(enumerate(paths), key=lambda one: str(one[1]))
    ]
    if deletions:
        raise refusal(
            f"no file of the table is that of the deletion vector of {next(iter(deletions))}"
        )
    return TableSnapshot(location, f"delta:{metadata.id}@{table.version()}", columns, files)


def _renamed(field: pyarrow.Field, name_of: Callable[[pyarrow.Field], str]) -> pyarrow.Field:
    """Return a column with other names, also of its members, and without metadata."""
    kind = field.type
    if types.is_struct(kind):
        kind = pyarrow.struct([_renamed(one, name_of) for one in kind.fields])
    elif types.is_map(kind):
        kind = pyarrow.map_(_renamed(kind.key_field, name_of), _renamed(kind.item_field, name_of))
    elif types.is_list(kind):
        kind = pyarrow.list_(_renamed(kind.value_field, name_of))
    return pyarrow.field(name_of(field), kind, field.nullable)


def _names_by_id(schema: pyarrow.Schema) -> Mapping[bytes, str]:
    """Return the names that the columns of a file have, and their members, by the ids of the
    table."""
    names: dict[bytes, str] = {}
    waiting = list(schema)
    while waiting:
        field = waiting.pop()
        if _ID_IN_FILE in (field.metadata or {}):
            names[field.metadata[_ID_IN_FILE]] = field.name
        waiting += [field.type.field(at) for at in range(field.type.num_fields)]
    return names


def _deletions(table: DeltaTable) -> dict[str, pyarrow.BooleanArray]:
    """Return which rows are left of the files that have a deletion vector, by their paths below the
    table."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    root = unquote(table.table_uri)
    found = pyarrow.table(table.deletion_vectors())
    return {
        unquote(row["filepath"].as_py()).removeprefix(root): row["selection_vector"].values
        for batch in found.to_batches()
        for row in pyarrow.StructArray.from_arrays(batch.columns, batch.schema.names)
    }
