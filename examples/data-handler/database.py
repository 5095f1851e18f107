"""The tables behind the data handler, in PostgreSQL.

Where the server is and who logs in stands in libpq's own variables (PGHOST, PGUSER, PGPASSWORD, PGDATABASE). Which
tables may be read and written is for the database to say: the role has rights on those only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from protocol import InputRequest, OutputRequest
from psycopg import AsyncConnection, sql

ROWS_PER_FETCH = 2000


async def connect() -> AsyncConnection:
    return await AsyncConnection.connect(connect_timeout=5)


async def rows(connection: AsyncConnection, request: InputRequest) -> AsyncIterator[list[list[float]]]:
    """All columns but `id` as numbers, a few thousand rows at a time: a large table never stands in memory."""
    columns = [sql.Identifier(name) for name in await _feature_columns(connection, request.table)]
    query = sql.SQL("select {} from {} order by id offset %s limit %s").format(
        sql.SQL(", ").join(columns), sql.Identifier(request.table)
    )
    async with connection.cursor(name="rows") as cursor:
        await cursor.execute(query, (request.skip, request.limit))
        while batch := await cursor.fetchmany(ROWS_PER_FETCH):
            yield [[float(value) for value in row] for row in batch]


async def store(connection: AsyncConnection, request: OutputRequest) -> None:
    """All predictions of the request or none. The same request again changes nothing: a row's key is its place."""
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
    """The server resolves the name as in any query, so that a table that is not there is its own, clear error."""
    cursor = await connection.execute(sql.SQL("select * from {} limit 0").format(sql.Identifier(table)))
    return [column.name for column in cursor.description or [] if column.name != "id"]
