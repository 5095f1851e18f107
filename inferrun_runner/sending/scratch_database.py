"""A database on the Pod's disk that nobody else sees and that ends with the process."""

import sqlite3
from pathlib import Path
from typing import Final

_PAGE: Final = 4096


def scratch_database(path: Path, tables: str, *, limit: int, cache_kib: int) -> sqlite3.Connection:
    """Create a database whose file is unlinked at once; `tables` creates its tables. Raises
    sqlite3.Error.

    `limit`: bytes of the file. Nothing is durable and there is no journal, so the content is not to
    be relied on after a statement has failed.
    """
    database = sqlite3.connect(path, check_same_thread=False)
    database.executescript(
        f"pragma page_size = {_PAGE}; pragma max_page_count = {limit // _PAGE};"
        f"pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -{cache_kib};"
        + tables
    )
    path.unlink()
    return database
