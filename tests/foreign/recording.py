"""What a `record.py` uses: starts a server of others on loopback, and has the product ask it while
its answers are written down.

It is imported in the environment of that software, so it uses the standard library only. A
`record.py` finds it with

    sys.path.append(str(Path(__file__).parents[1]))
    from recording import free_port, record, serving
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
PYTHON = "INFERRUN_RECORDING_PYTHON"
"""The environment variable with the project's own Python."""


def free_port() -> int:
    """Return a port of loopback that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def serving(
    *command: object,
    ready: str,
    seconds: float = 120.0,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the end of the block, which begins once it answers at the URL `ready` with
    a status below 400.

    It has a process group of its own, which is ended: servers have workers.
    """
    with (log or Path(os.devnull)).open("ab") as out:
        process = subprocess.Popen(
            [str(one) for one in command],
            stdout=out if log else sys.stderr,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                **(env or {}),
            },
            start_new_session=True,
        )
    try:
        _wait_for(ready, process, seconds=seconds)
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)


def _wait_for(url: str, process: subprocess.Popen[bytes], *, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise SystemExit(
                f"the server ended with {process.returncode} before it answered at {url}"
            )
        with suppress(OSError, urllib.error.HTTPError):
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310  a URL of loopback
            return
        time.sleep(0.2)
    raise SystemExit(f"the server did not answer at {url} within {seconds:g} s")


def record(
    path: Path,
    url: str,
    *,
    contract: Mapping[str, Any],  # Any: JSON
    rows: Sequence[Any],
    expected: Sequence[Any] | Mapping[str, Any],
    is_ready: bool = True,
) -> None:
    """Have the product ask the server at `url`, and write what it answered to `path`, a file of
    `answers`.

    `contract` has the members `kserve` (without its URL), `request` and `tensors`; `rows` are the
    records, up to four of a protocol that batches, because each run of consecutive ones is sent
    together. `expected` is what becomes of each record, `{"prediction": …}` or `{"error": "<code>",
    "message": "<a part>"}`, or how the run ends: `{"code": 4, "message": "<a part>"}`. Of a
    prediction that is an object, the members that are expected are compared. `is_ready`: what the
    warm-up sees.
    """
    given = {"contract": contract, "rows": rows, "is_ready": is_ready, "expected": expected}
    subprocess.run(
        [os.environ[PYTHON], "-m", "tests.foreign.recorder", str(path), url],
        input=json.dumps(given).encode(),
        cwd=REPOSITORY,
        check=True,
    )
