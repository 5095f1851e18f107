"""`make try`: runs the iris example on this machine, without a cluster, beside a real model server.

The product with its extra `local` is installed in `.try`, and MLServer with scikit-learn where the
tests have it, too. Everything is locked and comes from the package index.
"""

import hashlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.devcluster.commands import run
from tools.devcluster.console import info, step
from tools.devcluster.errors import DevClusterError
from tools.devcluster.layout import CHECKOUT
from tools.devcluster.servers_for_tests import NEWEST_PYTHON_OF_MLSERVER, install_mlserver
from tools.devcluster.venv import FIX, OLDEST_PYTHON, REGISTRY_FIX, uv_program

HOME: Final = CHECKOUT / ".try"
SERVER: Final = CHECKOUT / "examples/model-server"
MODEL: Final = "sklearn-iris"
MANIFEST: Final = CHECKOUT / "examples/local/iris.yaml"
RECORDS: Final = 150
START_SECONDS: Final = 60


def main() -> int:
    """Make what is missing, and run the example; returns the exit code."""
    began = time.monotonic()
    try:
        if sys.version_info < OLDEST_PYTHON:
            raise DevClusterError(
                f"python3 is {sys.version.split()[0]}; 3.11 or newer is required", fix=FIX
            )
        server = _server()
        product = _product()
        data = _data(server)
        with _serving(server) as address:
            code = _example(product, data, address)
    except DevClusterError as error:
        sys.stderr.write(f"error: {error.message}\nfix:   {error.fix}\n{error.detail}")
        return 1
    except KeyboardInterrupt:
        return 130
    info(f"done in {time.monotonic() - began:.0f} s")
    return code


def _product() -> Path:
    """The interpreter of an environment with the product, installed if its packages have changed."""
    lock, build = (CHECKOUT / f"requirements/{name}.txt" for name in ("local", "build"))
    editable = (CHECKOUT, CHECKOUT / "inferrun_runner")
    digest = hashlib.sha256(sys.version.encode())
    for file in (lock, *(one / "pyproject.toml" for one in editable)):
        digest.update(file.read_bytes())
    folder = HOME / "product"
    stamp, python = folder / "made-from", folder / "bin/python"
    if stamp.exists() and stamp.read_text() == digest.hexdigest() and python.exists():
        return python
    uv = uv_program()
    with step("install inferrun"):
        run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], fix=FIX)
        to: list[str | Path] = [uv, "pip", "install", "--quiet", "--python", python]
        run([*to, "--require-hashes", "-r", lock, "-r", build], fix=REGISTRY_FIX)
        here = [f"--editable={one}" for one in editable]
        run([*to, "--no-deps", "--no-build-isolation", *here])
        stamp.write_text(digest.hexdigest())
    return python


def _server() -> Path:
    if sys.version_info[:2] > NEWEST_PYTHON_OF_MLSERVER:
        newest = ".".join(map(str, NEWEST_PYTHON_OF_MLSERVER))
        raise DevClusterError(
            f"python3 is {sys.version.split()[0]}, and MLServer supports no newer one than {newest}",
            fix=f"install Python {newest}, and run python{newest} -m tools.first_try",
        )
    python = install_mlserver()
    models = HOME / "models"
    if not (models / MODEL / "model.joblib").exists():
        with step("train the model"):
            (models / MODEL).mkdir(parents=True, exist_ok=True)
            settings = f"{MODEL}/model-settings.json"
            (models / settings).write_bytes((SERVER / settings).read_bytes())
            run([python, SERVER / "train.py", models, MODEL])
    return python


def _data(server: Path) -> Path:
    folder = HOME / "data"
    file = folder / "in/iris.jsonl"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        written = subprocess.run(
            [server, SERVER / "measure.py", str(RECORDS)], check=True, capture_output=True
        )
        file.write_bytes(written.stdout)
    return folder


@contextmanager
def _serving(python: Path) -> Iterator[str]:
    """The address of the model server, until the block ends."""
    ports = dict(zip(("http_port", "grpc_port", "metrics_port"), _free_ports(3), strict=True))
    given = {"host": "127.0.0.1", **ports, "parallel_workers": 0, "metrics_dir": str(HOME)}
    (HOME / "models/settings.json").write_text(json.dumps(given))
    address = f"http://127.0.0.1:{ports['http_port']}"
    with (HOME / "model-server.log").open("wb") as log, step("start the model server"):
        process = subprocess.Popen(
            [python.parent / "mlserver", "start", HOME / "models"],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        _wait_until_ready(process, f"{address}/v2/models/{MODEL}/ready")
    try:
        yield address
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310  a URL of this machine
                return
        except OSError:
            time.sleep(0.1)
    process.kill()
    raise DevClusterError("the model server did not start", fix=f"see {HOME / 'model-server.log'}")


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _example(python: Path, data: Path, address: str) -> int:
    shown = MANIFEST.relative_to(CHECKOUT)
    place = data.relative_to(CHECKOUT)
    arguments = ["local", "-f", str(shown), "--claim", f"data={place}", "--model-url", address]
    first = json.loads((data / "in/iris.jsonl").read_text().splitlines()[0])
    info(f"{RECORDS} records such as {json.dumps(first)}")
    info(f"$ .try/product/bin/inferrun {' '.join(arguments)}")
    command: list[str | Path] = [
        python.parent / "inferrun",
        *arguments,
        "--fresh",
        "--state",
        HOME / "state",
    ]
    return subprocess.run(command, cwd=CHECKOUT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
