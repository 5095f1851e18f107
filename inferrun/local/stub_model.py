"""A model server for tests: it answers with what a function returns, and remembers what it was
asked. Speaks V2 over REST and OpenAI's chat completions. No model server for production.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

Row = Sequence[Any]  # Any: JSON
Predict = Callable[[Row], float]
Answer = Callable[[str], str]

CHAT: Final = "/chat/completions"


class StubModel:
    """`predict` gets the numbers of a record (V2), `answer` the last message of a conversation."""

    def __init__(
        self, predict: Predict = sum, answer: Answer = lambda prompt: f"answer to {prompt}"
    ) -> None:
        self.url = ""
        """Its address, while it is served."""

        self.requests: list[Any] = []  # Any: JSON
        """The bodies of all requests."""

        self._predict = predict
        self._answer = answer

    @contextmanager
    def served(self) -> Iterator["StubModel"]:
        """Serve it on a free port of this machine."""
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                """Ready, and without metadata."""
                self._send(
                    {"ready": True} if self.path.endswith(("ready", "live")) else {"name": "stub"}
                )

            def do_POST(self) -> None:
                """Predict."""
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model.requests.append(body)
                self._send(model._chat(body) if self.path.endswith(CHAT) else model._tensors(body))

            def _send(self, value: object) -> None:
                content = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Nothing is logged."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _tensors(self, body: Any) -> object:  # Any: JSON
        tensor = body["inputs"][0]
        records = tensor["shape"][0]
        flat = list(_flat(tensor["data"]))
        rows = [flat[at * len(flat) // records :][: len(flat) // records] for at in range(records)]
        values = [self._predict(row) for row in rows]
        return {
            "model_name": "stub",
            "outputs": [
                {"name": "predict", "datatype": "FP64", "shape": [records], "data": values}
            ],
        }

    def _chat(self, body: Any) -> object:  # Any: JSON
        content = self._answer(str(body["messages"][-1]["content"]))
        message = {"role": "assistant", "content": content}
        return {
            "id": "stub",
            "object": "chat.completion",
            "model": body.get("model", "stub"),
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


def _flat(values: Any) -> Iterator[Any]:  # Any: JSON
    for one in values:
        if isinstance(one, list):
            yield from _flat(one)
        else:
            yield one
