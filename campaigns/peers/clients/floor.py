"""The floor: what the work costs in Python with aiohttp, uvloop and orjson, if nothing is checked.

It counts, checks and repeats nothing, makes nothing durable, and loses everything if it ends early.
"""

import argparse
import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import orjson
import uvloop

from campaigns.peers.records import COLUMNS, chat_about

JSON = {"Content-Type": "application/json"}
_Piece = TypeVar("_Piece")
Post = Callable[[bytes], Coroutine[None, None, Any]]  # Any: JSON


async def main(given: argparse.Namespace) -> None:
    """Open a session, and do the work of a row."""
    target = Path(given.target)
    target.mkdir()
    path = (
        "v2/models/rows/infer"
        if given.form in ("rows", "objects", "columns")
        else "v1/chat/completions"
    )
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def post(body: bytes) -> Any:  # Any: JSON
            async with session.post(f"{given.url}/{path}", data=body, headers=JSON) as response:
                return orjson.loads(await response.read())

        match given.form:
            case "rows" | "objects":
                await _rows(given, target, post)
            case "columns":
                await _columns(given, target, post)
            case "texts":
                await _texts(given, target, post)
            case _:
                await _chats(given, target, post)


async def _rows(given: argparse.Namespace, target: Path, post: Post) -> None:
    with Path(given.source).open("rb") as lines, (target / "out.jsonl").open("wb") as out:

        async def one(piece: tuple[int, list[bytes]]) -> None:
            first, texts = piece
            if given.form == "objects":
                rows = [[*orjson.loads(text).values()] for text in texts]
                data = orjson.dumps(rows)
            else:
                data = b"[" + b",".join(texts) + b"]"
            answer = await post(_infer(data, len(texts)))
            values = answer["outputs"][0]["data"]
            out.write(
                b"".join(
                    b'{"index":%d,"prediction":%r}\n' % (number, value)
                    for number, value in enumerate(values, first)
                )
            )

        await _spread(_numbered(lines, given.batch), one, given.in_flight)


async def _columns(given: argparse.Namespace, target: Path, post: Post) -> None:
    import numpy  # noqa: PLC0415  only this work needs it
    import pyarrow  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    schema = pyarrow.schema({"index": pyarrow.int64(), "prediction": pyarrow.float64()})
    batches = parquet.ParquetFile(given.source).iter_batches(given.batch, columns=COLUMNS)
    with parquet.ParquetWriter(target / "out.parquet", schema) as out:

        async def one(piece: tuple[int, Any]) -> None:  # Any: pyarrow has no types
            first, batch = piece
            values = numpy.column_stack([column.to_numpy() for column in batch.columns])
            data = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
            answer = await post(_infer(data, batch.num_rows))
            numbers = numpy.arange(first, first + batch.num_rows)
            found.append((numbers, numpy.array(answer["outputs"][0]["data"])))
            if len(found) == 128:
                flush()

        found = list[tuple[Any, Any]]()  # Any: numbers and results as arrays

        def flush() -> None:
            if found:
                both = [numpy.concatenate(arrays) for arrays in zip(*found, strict=True)]
                out.write_table(pyarrow.table(both, schema=schema))
                found.clear()

        counted = ((at * given.batch, batch) for at, batch in enumerate(batches))
        await _spread(counted, one, given.in_flight)
        flush()


async def _chats(given: argparse.Namespace, target: Path, post: Post) -> None:
    with Path(given.source).open("rb") as lines, (target / "out.jsonl").open("wb") as out:

        async def one(line: bytes) -> None:
            asked = orjson.loads(line)
            answer = await post(orjson.dumps(asked["body"]))
            response = {"status_code": 200, "body": answer}
            out.write(orjson.dumps({"custom_id": asked["custom_id"], "response": response}) + b"\n")

        await _spread(lines, one, given.in_flight)


async def _texts(given: argparse.Namespace, target: Path, post: Post) -> None:
    import pyarrow  # noqa: PLC0415  only this work needs it
    from pyarrow import parquet  # noqa: PLC0415

    table = parquet.read_table(given.source)
    found = list[tuple[int, str]]()

    async def one(record: tuple[int, str]) -> None:
        number, text = record
        answer = await post(orjson.dumps(chat_about(text)))
        found.append((number, answer["choices"][0]["message"]["content"]))

    records = zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True)
    await _spread(records, one, given.in_flight)
    ids, answers = zip(*found, strict=True)
    parquet.write_table(pyarrow.table({"id": ids, "answer": answers}), target / "out.parquet")


async def _spread(
    work: Iterable[_Piece], one: Callable[[_Piece], Coroutine[None, None, None]], tasks: int
) -> None:
    """Have this many tasks take from the work until there is none."""
    pieces = iter(work)

    async def take() -> None:
        for piece in pieces:
            await one(piece)

    await asyncio.gather(*(take() for _ in range(tasks)))


def _numbered(lines: Iterable[bytes], size: int) -> Iterator[tuple[int, list[bytes]]]:
    """Pieces of so many lines, each with the number of its first line."""
    every, first = iter(lines), 0
    while piece := [line.rstrip() for line in islice(every, size)]:
        yield first, piece
        first += len(piece)


def _infer(data: bytes, rows: int) -> bytes:
    head = b'{"inputs":[{"name":"input-0","datatype":"FP32","shape":[%d,4],"data":' % rows
    return head + data + b"}]}"


if __name__ == "__main__":
    from campaigns.peers.clients.arguments import given as _given

    uvloop.run(main(_given))
