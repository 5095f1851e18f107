"""JSON texts of records, predictions and what is copied, whether they are texts or columns.
Pure."""

from collections.abc import Mapping, Sequence

from inferrun.plugins import (
    ID_COLUMN,
    ArrowRecords,
    Batch,
    Block,
    JsonRecords,
    RecordError,
    Records,
)


def json_texts(records: Records) -> Sequence[bytes]:
    """Return one JSON text per record; a row of columns is an array of their values."""
    match records:
        case JsonRecords(texts):
            return texts
        case ArrowRecords():
            from inferrun.formats.columns import row_texts  # noqa: PLC0415  only runs with columns pay for the import of pyarrow

            return row_texts(records.table)


def prediction_texts(values: Records) -> Sequence[bytes]:
    """Return one JSON text per prediction, which are texts already or a column."""
    if isinstance(values, JsonRecords):
        return values.texts
    from inferrun.formats.json_columns import texts_in  # noqa: PLC0415  only runs with columns pay for the import of pyarrow

    return [text or b"null" for text in texts_in(values.table.column(0))]


def copied_texts(batch: Batch | Block) -> Sequence[bytes]:
    """Return what is copied of each record as members of a JSON object without the braces; empty if
    nothing is."""
    return copied_members(batch)[0]


def copied_members(batch: Batch | Block) -> tuple[Sequence[bytes], Mapping[int, RecordError]]:
    """Return `copied_texts`, and the errors of records with a value that JSON does not have, which
    is null there."""
    match batch.copied:
        case None:
            return (), {}
        case JsonRecords(texts):
            return texts, {}
        case ArrowRecords(table):
            from inferrun.formats.columns import members_of  # noqa: PLC0415  only runs with columns pay for the import of pyarrow

            names = [name for name in table.schema.names if name != ID_COLUMN]
            return members_of(table.select(names))
