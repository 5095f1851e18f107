"""A model server that answers 503 until it is woken up, and then speaks V2 and OpenAI's API. Standard library only."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

AWAKE = Path("/tmp/awake")  # noqa: S108 -- of the container
SLEEPS = os.environ.get("SLEEPS") == "yes"
LISTED = os.environ.get("LISTED", "tiny")
"""The name of the language model."""


class Model(BaseHTTPRequestHandler):
    """The model `sums`, and a language model, which repeats the prompt."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Readiness, metadata, or the list of models."""
        if self._is_asleep():
            return
        if self.path.endswith("/v1/models"):
            self._answer({"object": "list", "data": [{"id": LISTED, "object": "model"}]})
        elif self.path.endswith("/ready"):
            self._answer({"name": "sums", "ready": True})
        else:
            self._answer({"name": "sums", "inputs": [{"name": "in", "datatype": "FP32", "shape": [-1, -1]}]})

    def do_POST(self) -> None:
        """Predict."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._is_asleep():
            return
        if self.path.endswith("/infer"):
            tensor = body["inputs"][0]
            flat, width = tensor["data"], tensor["shape"][1]
            sums = [sum(flat[at : at + width]) for at in range(0, len(flat), width)]
            output = {"name": "out", "shape": [len(sums), 1], "datatype": "FP32", "data": sums}
            self._answer({"model_name": "sums", "outputs": [output]})
            return
        message = {"role": "assistant", "content": body["messages"][-1]["content"]}
        usage = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
        self._answer({"object": "chat.completion", "choices": [{"index": 0, "message": message}], "usage": usage})

    def _is_asleep(self) -> bool:
        if not SLEEPS or AWAKE.exists():
            return False
        self._answer({"error": "the model is loading"}, status=503)
        return True

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
    ThreadingHTTPServer(("", 8080), Model).serve_forever()
