"""The mounted Secret of a database."""

from pathlib import Path

import pytest

from inferrun.plugins.storage import MountedSecret
from inferrun.stores.sql import SqlLogin
from inferrun_runner.stores.sql.credentials import read_credentials

GIVEN = {"host": "db", "dbname": "rows", "username": "reader"}


def mounted(folder: Path, **keys: str) -> SqlLogin:
    for key, value in (GIVEN | keys).items():
        (folder / key).write_text(value)
    return read_credentials(MountedSecret(folder, "database"))


def test_a_server_that_asks_for_no_password_has_an_empty_one(tmp_path: Path) -> None:
    assert mounted(tmp_path, password="").password == ""


def test_a_password_that_was_forgotten_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Secret 'database' has no key password"):
        mounted(tmp_path)
