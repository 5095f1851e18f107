"""The predictions of an earlier run by the ids of their records, in a database on the Pod's disk.

It takes about 20 MiB of memory, whatever the number of records is, and finds a prediction wherever
its record is now. All methods block.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from inferrun.plugins import Batch, Block, CustomId, InputError, StoredResult
from inferrun_runner.sending.scratch_database import scratch_database

_CACHE_KIB: Final = 16 * 1024
_TABLE: Final = """
create table known (key blob primary key, results integer default 0, records integer default 0, prediction blob);
"""
"""`results` of the earlier run and `records` of the input have the key; `prediction` is null if the
record failed."""


class KeyedPredictions:
    """Holds the results of the run with this name."""

    def __init__(
        self, results: Iterable[StoredResult], *, run: str, folder: Path, limit: int
    ) -> None:
        """`limit`: bytes of the file, which is created in the folder and unlinked at once. Raises
        InputError beyond it."""
        self._run = run
        path = folder / "earlier-predictions"
        with self._disk_errors():
            self._database = scratch_database(path, _TABLE, limit=limit, cache_kib=_CACHE_KIB)
            self._database.executemany(
                "insert into known (key, results, prediction) values (?, 1, ?) "
                "on conflict (key) do update set results = results + 1",
                (
                    (_key(one.custom_id), one.prediction or None)
                    for one in results
                    if one.custom_id is not None
                ),
            )

    def count(self, blocks: Iterable[Block]) -> int:
        """Return how many records of an input have a prediction. Raises InputError for an id that
        is not unique."""
        with self._disk_errors():
            self._database.executemany(
                "insert into known (key, records) values (?, 1) on conflict (key) do update set records = records + 1",
                ((_key(one),) for block in blocks for one in block.ids if one is not None),
            )
        for column, where in (("records", "the input"), ("results", f"run {self._run!r}")):
            for (key,) in self._database.execute(
                f"select key from known where records > 0 and {column} > 1 limit 1"  # noqa: S608  names
            ):
                text = key.decode(errors="replace")[:80]
                raise InputError(
                    f"retryOf: several records of {where} have the custom_id {text!r}, so their predictions cannot be told apart; "
                    "make the ids unique, or start a run without retryOf",
                    is_retryable=False,
                )
        (found,) = self._database.execute(
            "select count(prediction) from known where records > 0"
        ).fetchone()
        return int(found)

    def of(self, batch: Batch) -> Mapping[int, bytes]:
        """Return the known predictions of a batch, by position; none of a record that is not valid
        any more."""
        find = "select prediction from known where key = ?"
        places = (
            at for at, one in enumerate(batch.ids) if one is not None and at not in batch.errors
        )
        found = (
            (at, self._database.execute(find, [_key(batch.ids[at])]).fetchone()) for at in places
        )
        return {at: row[0] for at, row in found if row and row[0] is not None}

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise InputError(
                f"retryOf: the predictions of run {self._run!r} cannot be held on the Pod's disk ({error}); set a larger "
                "limits.spool in the config",
                is_retryable=False,
            ) from error


def _key(custom_id: CustomId) -> bytes:
    """An integer and its text are the same: not all formats keep the difference."""
    return str(custom_id).encode(errors="surrogatepass")
