"""Writes a Parquet file of support tickets: python make_tickets.py 100 tickets.parquet."""

import datetime
import sys

import pyarrow as pa
from pyarrow import parquet

TITLES = ("Slow page", "Crash at start", "Wrong price", "Cannot log in")


def table(count: int) -> pa.Table:
    """So many tickets, with typed columns."""
    day = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "title": [TITLES[number % len(TITLES)] for number in range(count)],
            "body": [None if number % 10 == 9 else f"This is ticket {number}." for number in range(count)],
            "opened": pa.array([day + datetime.timedelta(minutes=number) for number in range(count)]),
        }
    )


if __name__ == "__main__":
    parquet.write_table(table(int(sys.argv[1])), sys.argv[2])
