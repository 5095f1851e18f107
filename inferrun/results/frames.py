"""Data frames as the input of a run, and its results beside them. Needs pyarrow; packages of frames
are used, never imported.

A frame of pandas or polars, or a table of Arrow, is stored in the format of the config's input.
Each of its rows is a record, so the results are as many rows in the same order.
"""

import io
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from inferrun.contract import RESULT_MEMBERS
from inferrun.fields.problems import describe
from inferrun.formats.bytes_in_json import json_of_other
from inferrun.placeholders import has_placeholders
from inferrun.plugins import ID_COLUMN
from inferrun.resources import InferenceConfig, InferenceRun
from inferrun.resources.config import JoinSource
from inferrun.resources.resolution import resolve
from inferrun.results.access import Access, load
from inferrun.results.bucket import BucketFiles
from inferrun.results.committed import storage_of
from inferrun.results.errors import ResultsError
from inferrun.results.table import PredictedRows
from inferrun.stores import OBJECT_STORES

if TYPE_CHECKING:
    import pyarrow

Frame = TypeVar("Frame")
"""A data frame of pandas or polars, or a table of Arrow."""

_, _, _PREDICTION, _ERROR = RESULT_MEMBERS
_OBJECTS: Final = "openai"
_EXTENSIONS: Final = {_OBJECTS: "jsonl"}


def upload_frame(
    frame: object, run: InferenceRun, config: InferenceConfig, *, access: Access
) -> None:
    """Store a frame as the object that the run will read. Raises ResultsError; nothing that exists
    is replaced.

    The label of the config's input must be one of objects, such as `s3`, and its path must have a
    placeholder: each frame is an object of its own.
    """
    name = f"InferenceConfig {config.metadata.name}"
    label, template = next(iter((config.spec.storage.input or {}).items()), ("", None))
    if label not in OBJECT_STORES or not isinstance(template, dict):
        raise ResultsError(
            f"{name}: a data frame can be uploaded to an input of the labels {', '.join(OBJECT_STORES)} only"
        )
    if not has_placeholders(str(template.get("path"))):
        raise ResultsError(
            f"{name}: each data frame needs an object of its own; put a placeholder into storage.input.{label}.path, as in "
            "uploads/$(run.name).parquet"
        )
    resolved = resolve(run, config, is_our_runner=True)
    if resolved.problems:
        raise ResultsError(describe(resolved.problems))
    storage = storage_of(OBJECT_STORES[label], resolved.input[label], field=f"input.{label}")
    spec, form = config.spec, storage.format
    inputs = (spec.tensors and spec.tensors.inputs) or ()
    is_named = any(one.columns for one in inputs)
    has_columns = (
        is_named or bool(spec.pass_through_columns) or spec.join_source is JoinSource.INPUT
    )
    content = content_of(frame, form=form, has_columns=has_columns)
    key = (
        f"{storage.path}rows.{_EXTENSIONS.get(form, form)}"
        if storage.path.endswith("/")
        else storage.path
    )
    BucketFiles(storage, access).create(key, content)


def content_of(frame: object, *, form: str, has_columns: bool) -> bytes:
    """Return the file of a format that contains a frame. Raises ResultsError for a frame or format
    that cannot be stored.

    `has_columns`: whether the config names columns; otherwise a record of JSON lines is an array.
    """
    table = _table_of(frame)
    arrow = load("pyarrow")
    sink = io.BytesIO()
    try:
        match form:
            case "parquet":
                load("pyarrow.parquet").write_table(table, sink)
            case "arrow":
                with arrow.ipc.new_file(sink, table.schema) as writer:
                    writer.write_table(table)
            case "csv":
                load("pyarrow.csv").write_csv(table, sink)
            case "jsonl" | "openai":
                dumps = partial(load("orjson").dumps, default=json_of_other)
                for row in table.to_pylist():
                    sink.write(
                        dumps(row if has_columns or form == _OBJECTS else _array_of(row)) + b"\n"
                    )
            case _:
                raise ResultsError(
                    f"a data frame cannot be stored in the format {form!r}; use parquet"
                )
    except (arrow.ArrowException, TypeError) as error:
        raise ResultsError(f"the data frame cannot be stored as {form}: {error}") from error
    return sink.getvalue()


def with_results(frame: Frame, results: PredictedRows) -> Frame:
    """Return a frame with the columns `prediction` and `error` of its rows. Raises ResultsError
    unless the rows are those of the results.
    """
    table = results.to_arrow()
    size = len(frame)  # type: ignore[arg-type]  # every frame has a length
    if len(table) != size:
        raise ResultsError(f"the run has {len(table)} results, the data frame has {size} rows")
    columns = {name: table.column(name) for name in (_PREDICTION, _ERROR)}
    given: Any = frame  # Any: of one of several packages
    if hasattr(frame, "with_columns"):
        added = load("polars", extra="polars").from_arrow(table.select(list(columns)))
        return given.with_columns(added)  # type: ignore[no-any-return]
    if hasattr(frame, "assign"):
        added = {name: column.to_pandas().to_numpy() for name, column in columns.items()}
        return given.assign(**added)  # type: ignore[no-any-return]
    for name, column in columns.items():
        given = given.append_column(name, column)
    return given  # type: ignore[no-any-return]


def _table_of(frame: object) -> "pyarrow.Table":
    arrow = load("pyarrow")
    if isinstance(frame, arrow.Table):
        table = frame
    elif hasattr(frame, "to_arrow"):  # polars
        table = frame.to_arrow()
    elif type(frame).__module__.partition(".")[0] == "pandas":
        table = arrow.Table.from_pandas(frame, preserve_index=False)
    else:
        raise ResultsError(
            f"a {type(frame).__name__} is not a data frame of pandas or polars, nor a table of Arrow"
        )
    taken = [name for name in (_PREDICTION, _ERROR) if name in table.schema.names]
    if taken:
        raise ResultsError(f"the data frame has a column {taken[0]!r} already; rename it")
    if not len(table):
        raise ResultsError("the data frame has no rows")
    return table


def _array_of(row: dict[str, Any]) -> dict[str, Any]:  # Any: JSON
    """Return the record of a row whose columns feed the model in their order."""
    inputs = [value for name, value in row.items() if name != ID_COLUMN]
    return {ID_COLUMN: row[ID_COLUMN], "inputs": inputs} if ID_COLUMN in row else {"inputs": inputs}
