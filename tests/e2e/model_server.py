"""A model server with V2 and OpenAI's API, which counts how often it receives each row. Standard
library only.

Every model of V2 adds up a row's values, and the language model repeats the prompt. `counting`
rejects requests with a negative first value. Environment: `REQUEST_SECONDS` a request takes, so
that a run can be disturbed in the middle; with `SLEEPS`, it answers 503 until the file `/tmp/awake`
exists; `LISTED` is the name of the language model; `TLS` is a folder with a certificate, `tls.crt`,
and its key, `tls.key`.
"""

import json
import os
import ssl
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

AWAKE = Path("/tmp/awake")  # noqa: S108 -- of the container

_rows: "Counter[int]" = Counter()
_lock = threading.Lock()


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/counts":
            with _lock:
                self._answer({str(row): count for row, count in _rows.items()})
        elif self._is_asleep():
            self._answer({"error": "the model is loading"}, status=503)
        elif self.path.endswith("/v1/models"):
            self._answer(
                {
                    "object": "list",
                    "data": [{"id": os.environ.get("LISTED", "tiny"), "object": "model"}],
                }
            )
        elif self.path.endswith("/ready"):
            self._answer({"name": "sums", "ready": True})
        else:
            tensor = {"name": "in", "datatype": "FP32", "shape": [-1, 2]}
            self._answer({"name": "sums", "platform": "test", "inputs": [tensor], "outputs": []})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._is_asleep():
            self._answer({"error": "the model is loading"}, status=503)
        elif self.path.endswith("/infer"):
            self._infer(request["inputs"][0])
        else:
            message = {"role": "assistant", "content": request["messages"][-1]["content"]}
            usage = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
            self._answer(
                {
                    "object": "chat.completion",
                    "choices": [{"index": 0, "message": message}],
                    "usage": usage,
                }
            )

    def _infer(self, tensor: "dict[str, list[float]]") -> None:
        flat, width = tensor["data"], int(tensor["shape"][1])
        rows = [flat[at : at + width] for at in range(0, len(flat), width)]
        if "/counting/" in self.path and any(row[0] < 0 for row in rows):
            self._answer({"error": "negative"}, status=422)
            return
        time.sleep(float(os.environ["REQUEST_SECONDS"]))
        with _lock:
            _rows.update(int(row[0]) for row in rows)
        output = {
            "name": "out",
            "datatype": "FP32",
            "shape": [len(rows), 1],
            "data": [sum(row) for row in rows],
        }
        self._answer({"model_name": "sums", "outputs": [output]})

    def _is_asleep(self) -> bool:
        return "SLEEPS" in os.environ and not AWAKE.exists()

    def _answer(self, value: object, *, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the library's name
        """Log nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("", 8080), Model)
    if folder := os.environ.get("TLS"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{folder}/tls.crt", f"{folder}/tls.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
