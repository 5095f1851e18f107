"""The tables behind the data handler, in PostgreSQL.

The connection is configured by libpq's environment variables (PGHOST, PGUSER, PGPASSWORD,
PGDATABASE). Which tables can be read and written is determined by the privileges of the database
role.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from protocol import InputRequest, OutputRequest
from psycopg import AsyncConnection, sql

ROWS_PER_FETCH = 2000


async def connect() -> AsyncConnection:
    return await AsyncConnection.connect(connect_timeout=5)


async def rows(
    connection: AsyncConnection, request: InputRequest
) -> AsyncIterator[list[list[float]]]:
    """All columns except `id` as numbers, in batches, so that a large table is never completely in
    memory."""
    columns = [sql.Identifier(name) for name in await _feature_columns(connection, request.table)]
    query = sql.SQL("select {} from {} order by id offset %s limit %s").format(
        sql.SQL(", ").join(columns), sql.Identifier(request.table)
    )
    async with connection.cursor(name="rows") as cursor:
        await cursor.execute(query, (request.skip, request.limit))
        while batch := await cursor.fetchmany(ROWS_PER_FETCH):
            yield [[float(value) for value in row] for row in batch]


async def store(connection: AsyncConnection, request: OutputRequest) -> None:
    """Store all predictions of the request or none. Repeating a request changes nothing, because
    the key includes the position."""
    insert = sql.SQL(
        "insert into {} (jobuid, poduid, prediction, counter) values (%s, %s, %s, %s)"
        " on conflict (jobuid, poduid, counter) do update set prediction = excluded.prediction"
    ).format(sql.Identifier(request.table))
    async with connection.transaction(), connection.cursor() as cursor:
        await cursor.executemany(
            insert,
            [
                (request.job_uid, request.pod_uid, value, counter)
                for counter, value in enumerate(request.values, request.first)
            ],
        )


async def _feature_columns(connection: AsyncConnection, table: str) -> list[str]:
    """The server resolves the table's name as in any query, so a missing table results in the
    server's own error message."""
    cursor = await connection.execute(
        sql.SQL("select * from {} limit 0").format(sql.Identifier(table))
    )
    return [column.name for column in cursor.description or [] if column.name != "id"]
