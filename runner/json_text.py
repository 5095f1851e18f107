"""Converts records to JSON texts. Pure."""

from inferrun.plugins import ArrowRecords, JsonRecords, Records


def json_texts(records: Records) -> list[bytes]:
    """Return one JSON text per record; a row of columns is an array of their values."""
    match records:
        case JsonRecords(texts):
            return list(texts)
        case ArrowRecords():
            from runner.columns import row_texts  # noqa: PLC0415  only runs with columns pay for the import of pyarrow

            return row_texts(records.table)
