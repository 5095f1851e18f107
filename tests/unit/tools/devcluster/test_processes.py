"""Which processes count as ours: those that were recorded, unless their process id has been
reused."""

import json
import os
import signal
from dataclasses import asdict, replace
from pathlib import Path

from tools.devcluster.processes import ProcessRecords, identity_of, start_time_of, state_of, stop

STAT = "4711 (a) b (c) S 1 4711 4711 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 9 0 123456 1 2 3"


def _record(records: ProcessRecords, name: str, *, older_by: int = 0) -> None:
    identity = identity_of(os.getpid())
    assert identity is not None
    records.folder.mkdir(exist_ok=True)
    recorded = asdict(replace(identity, start_time=identity.start_time - older_by))
    records.path(name).write_text(json.dumps({"identity": recorded, "fingerprint": "settings"}))


def test_a_name_with_spaces_and_parentheses_does_not_shift_the_fields() -> None:
    assert state_of(STAT) == "S"
    assert start_time_of(STAT) == 123456


def test_a_recorded_process_that_is_running_is_found(tmp_path: Path) -> None:
    records = ProcessRecords(tmp_path / "processes")
    _record(records, "etcd")
    found = records.running("etcd")
    assert found is not None
    assert found.pid == os.getpid()


def test_a_process_that_reuses_a_recorded_id_is_not_stopped(tmp_path: Path) -> None:
    records = ProcessRecords(tmp_path / "processes")
    _record(records, "etcd", older_by=100)
    assert records.running("etcd") is None
    assert not stop("etcd", records=records, sig=signal.SIGKILL)
    assert records.names() == []
