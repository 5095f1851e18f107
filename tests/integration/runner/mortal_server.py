"""`python -m tests.integration.runner.mortal_server`: a model server that ends when it receives a
poison record, and is restarted.

The parent process starts a child that serves the model `sum`, and another one, after a pause,
whenever the child ends. A child that meets a poison record ends at once, with everything that is in
flight, as a segmentation fault does. Each child writes a line to the journal when it starts and
when it ends because of a record. The process ends when its standard input is closed.
"""

import argparse
import asyncio
import json
import os
import select
import signal
import socket
import sys
import time
from array import array
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import grpc

from tests.conformance.inference_messages import message_class
from tests.integration.runner.pods import REPOSITORY, until

_DIED = 9


@dataclass(frozen=True, slots=True)
class MortalServer:
    """The running server."""

    url: str
    journal: Path

    @property
    def pid(self) -> int:
        """The process that was started last."""
        lines = self.journal.read_text().splitlines()
        return int([json.loads(line)["started"] for line in lines if "started" in line][-1])

    @property
    def deaths(self) -> list[list[int]]:
        """The first numbers of the records of each request that ended a process."""
        lines = self.journal.read_text().splitlines()
        return [json.loads(line)["died"] for line in lines if "died" in line]


@asynccontextmanager
async def mortal_server(
    journal: Path,
    *,
    poison: Sequence[int],
    protocol: str = "v2",
    restart: float = 0.2,
    seconds: float = 0.0,
    most: int = 0,
) -> AsyncIterator[MortalServer]:
    """Serve; `restart` is the pause before another process starts, and `seconds` is the time of a
    request. A process ends at requests with more than `most` records, too; 0: at none."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    options = {
        "port": port,
        "protocol": protocol,
        "restart": restart,
        "seconds": seconds,
        "journal": journal,
        "most": most,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.integration.runner.mortal_server",
        *(text for name, value in options.items() for text in (f"--{name}", str(value))),
        "--poison",
        *map(str, poison),
        cwd=REPOSITORY,
        stdin=asyncio.subprocess.PIPE,
    )
    try:
        await until(lambda: journal.exists() and "started" in journal.read_text())
        scheme = "grpc" if protocol == "grpc-v2" else "http"
        yield MortalServer(f"{scheme}://127.0.0.1:{port}", journal)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()


class _Model:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self._poison = set(arguments.poison)
        self._seconds = arguments.seconds
        self._most = arguments.most or sys.maxsize
        self._journal = arguments.journal

    def sums(self, rows: list[list[float]]) -> list[float]:
        is_deadly = len(rows) > self._most or any(int(row[0]) in self._poison for row in rows)
        time.sleep(self._seconds)
        if is_deadly:
            note(self._journal, died=[int(row[0]) for row in rows])
            os._exit(_DIED)
        return [sum(row) for row in rows]


def _rows(values: list[float], count: int, width: int) -> list[list[float]]:
    return [values[start : start + width] for start in range(0, count * width, width)]


def note(journal: Path, **what: object) -> None:
    with journal.open("a") as file:
        file.write(json.dumps(what) + "\n")


def _serve_http(port: int, model: _Model, arguments: argparse.Namespace) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout: ClassVar[float] = 30.0

        def log_message(self, *_: object) -> None:
            return

        def do_GET(self) -> None:
            self._respond(
                {
                    "inputs": [{"name": "input-0", "datatype": "FP32", "shape": [-1, -1]}],
                    "extensions": [],
                }
            )

        def do_POST(self) -> None:
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            tensor = document["inputs"][0]
            data = model.sums(_rows(tensor["data"], *tensor["shape"]))
            self._respond(
                {
                    "outputs": [
                        {"name": "sum", "datatype": "FP64", "shape": [len(data)], "data": data}
                    ]
                }
            )

        def _respond(self, document: object) -> None:
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128
        allow_reuse_port = True

    with Server(("127.0.0.1", port), Handler) as server:
        note(arguments.journal, started=os.getpid())
        server.serve_forever()


def _serve_grpc(port: int, model: _Model, arguments: argparse.Namespace) -> None:
    def infer(request: Any, _: Any) -> Any:  # Any: generated messages
        data = model.sums(
            _rows(array("f", request.raw_input_contents[0]).tolist(), *request.inputs[0].shape)
        )
        response = message_class("ModelInferResponse")(model_name="sum")
        response.outputs.add(name="sum", datatype="FP64", shape=[len(data)])
        response.raw_output_contents.append(array("d", data).tobytes())
        return response

    def describe(_request: Any, _: Any) -> Any:  # Any: generated messages
        response = message_class("ModelMetadataResponse")(name="sum")
        response.inputs.add(name="input-0", datatype="FP32", shape=[-1, 2])
        return response

    def handler(method: Any, name: str) -> Any:  # Any: grpc is not typed
        return grpc.unary_unary_rpc_method_handler(
            method,
            request_deserializer=message_class(f"{name}Request").FromString,
            response_serializer=lambda found: found.SerializeToString(),
        )

    methods = {
        "ModelInfer": handler(infer, "ModelInfer"),
        "ModelMetadata": handler(describe, "ModelMetadata"),
    }
    server = grpc.server(ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("inference.GRPCInferenceService", methods),)
    )
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    note(arguments.journal, started=os.getpid())
    server.wait_for_termination()


def _child(arguments: argparse.Namespace) -> int:
    pid = os.fork()
    if pid == 0:
        serve = _serve_grpc if arguments.protocol == "grpc-v2" else _serve_http
        serve(arguments.port, _Model(arguments), arguments)
        os._exit(0)
    return pid


def main() -> None:
    """Keep children running until the standard input is closed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--protocol", required=True)
    parser.add_argument("--restart", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--most", type=int, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--poison", type=int, nargs="*", default=[])
    arguments = parser.parse_args()
    child, due = _child(arguments), 0.0
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        if child and os.waitpid(child, os.WNOHANG)[0]:
            child, due = 0, time.monotonic() + arguments.restart
        if not child and due <= time.monotonic():
            child = _child(arguments)
    if child:
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main()
