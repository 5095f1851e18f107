"""A small server with OpenAI's API that stands behind the gateways of others. It imports the
standard library only.

It answers a chat with its prompt, `null` with null, and the prompts of `ERRORS` with their
statuses.
"""

import json
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from recording import free_port, record, serving  # type: ignore[import-not-found]  # a sibling, wherever the tests are

ERRORS: dict[str, tuple[int, dict[str, Any]]] = {  # Any: JSON
    "overloaded": (
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    ),
    "denied": (
        401,
        {"error": {"type": "invalid_request_error", "message": "Incorrect API key provided"}},
    ),
    "bad": (
        400,
        {"error": {"type": "invalid_request_error", "message": "the prompt is not allowed"}},
    ),
    "fails": (500, {"error": {"type": "internal_error", "message": "the engine failed"}}),
}
MODEL = "m"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer all that a gateway asks of its worker."""
        listed = {
            "object": "list",
            "data": [{"id": MODEL, "object": "model", "created": 1, "owned_by": "vllm"}],
        }
        about = {
            "model_path": MODEL,
            "served_model_name": MODEL,
            "model_id": MODEL,
            "is_generation": True,
            "version": "1",
        }
        self._answer(200, listed if self.path == "/v1/models" else about)

    def do_POST(self) -> None:
        """Answer a chat."""
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = sent["messages"][-1]["content"]
        message = {"role": "assistant", "content": None if prompt == "null" else prompt}
        answer = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        self._answer(*ERRORS.get(prompt, (200, answer)))

    def _answer(self, status: int, value: object) -> None:
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the base class
        """Nothing is logged."""


class _Worker(ThreadingHTTPServer):
    daemon_threads = True

    def stop(self) -> None:
        """Accept no more connections; those that are open end with their next request."""
        self.shutdown()
        self.server_close()


@contextmanager
def worker() -> Iterator[tuple[str, _Worker]]:
    """Serve until the end of the block, or until it is stopped; yields the URL, too."""
    server = _Worker(("127.0.0.1", 0), _Handler)
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    ).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server
    finally:
        server.server_close()


def chats(
    out: Path, url: str, prompts: Sequence[str], expected: object, *, is_ready: bool = True
) -> None:
    """Record the answers to prompts."""
    contract = {
        "kserve": {"protocolVersion": "openai", "modelName": MODEL},
        "request": {"prompt": "{{ p }}"},
    }
    rows = [{"p": prompt} for prompt in prompts]
    record(out, url, contract=contract, rows=rows, expected=expected, is_ready=is_ready)


def _lists_models(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/v1/models", timeout=5) as response:  # noqa: S310  a URL of loopback
            return bool(json.load(response)["data"])
    except OSError:  # such as a status that is not a success
        return False


def record_router(out: Path, program: Sequence[object], *, is_ready_without: bool) -> None:
    """Record what a router answers with a worker, and when it has gone."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = (*program, "--host", "127.0.0.1", "--port", port, "--prometheus-port", free_port())
    ok = {"prediction": {"text": "ok", "finish_reason": "stop"}}
    quick = ("--health-check-interval-secs", 1, "--health-failure-threshold", 1, "--worker-urls")
    with worker() as (behind, server), serving(*command, *quick, behind, ready=f"{url}/v1/models"):
        chats(out / "answers.json", url, ["ok", "bad"], [ok, {"error": "http_400"}])
        server.stop()
        for _ in range(60):  # its health checks find it
            if not _lists_models(url):
                break
            time.sleep(1)
        gone = {"code": 4, "message": "returned"}
        chats(out / "worker-away.json", url, ["ok"], gone, is_ready=is_ready_without)
