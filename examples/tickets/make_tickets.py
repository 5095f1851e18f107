"""Writes a Parquet file of a day's support tickets to standard output: python make_tickets.py
2026-11-23 40 > tickets.parquet."""

import datetime
import sys
from decimal import Decimal

import pyarrow as pa
from pyarrow import parquet

TITLES = ("Slow page", "Crash at start", "Wrong price", "Cannot log in")


def table(day: datetime.date, count: int) -> pa.Table:
    """So many tickets, with typed columns. Every tenth has no text."""
    start = datetime.datetime.combine(day, datetime.time(8), datetime.UTC)
    return pa.table(
        {
            "id": pa.array(
                [day.toordinal() * 1_000 + number for number in range(count)], pa.int64()
            ),
            "title": [TITLES[number % len(TITLES)] for number in range(count)],
            "body": [
                None if number % 10 == 9 else f"This is ticket {number}." for number in range(count)
            ],
            "opened": pa.array(
                [start + datetime.timedelta(minutes=number) for number in range(count)]
            ),
            "price": pa.array(
                [Decimal(number) / 4 for number in range(count)], pa.decimal128(9, 2)
            ),
        }
    )


if __name__ == "__main__":
    parquet.write_table(
        table(datetime.date.fromisoformat(sys.argv[1]), int(sys.argv[2])), sys.stdout.buffer
    )
