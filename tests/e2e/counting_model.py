"""A V2 model server that counts how often it receives each row, identified by its first value. Standard library only.

The models add up a row's values. Each request takes a while, so that a run can be disturbed in the middle. The model `counting`
rejects requests with a negative first value; `lenient` does not. There is no other.
"""

import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECONDS_PER_REQUEST = 0.7

_rows: "Counter[int]" = Counter()
_lock = threading.Lock()


class Model(BaseHTTPRequestHandler):
    """`/v2/models/counting`, its `/infer`, and `/counts`."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Metadata, readiness, or the counts."""
        if self.path == "/counts":
            with _lock:
                self._answer({str(row): count for row, count in _rows.items()})
        elif not self._is_known():
            self._answer({"error": "no such model"}, status=404)
        else:
            tensor = {"name": "in", "datatype": "FP32", "shape": [-1, 2]}
            self._answer({"name": "counting", "platform": "test", "inputs": [tensor], "outputs": []})

    def do_POST(self) -> None:
        """Count the rows and predict the sum of each."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._is_known():
            self._answer({"error": "no such model"}, status=404)
            return
        tensor = request["inputs"][0]
        data, width = tensor["data"], tensor["shape"][1]
        flat = [value for row in data for value in row] if data and isinstance(data[0], list) else data
        rows = [flat[at : at + width] for at in range(0, len(flat), width)]
        if "/lenient/" not in self.path and any(row[0] < 0 for row in rows):
            self._answer({"error": "negative"}, status=422)
            return
        time.sleep(SECONDS_PER_REQUEST)
        with _lock:
            _rows.update(int(row[0]) for row in rows)
        sums = [sum(row) for row in rows]
        output = {"name": "out", "datatype": "FP32", "shape": [len(sums), 1], "data": sums}
        self._answer({"model_name": "counting", "outputs": [output]})

    def _is_known(self) -> bool:
        parts = self.path.split("/")
        return parts[2] != "models" or parts[3] in ("counting", "lenient")

    def _answer(self, value: object, *, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the library's name
        """Log nothing, because requests are counted."""


if __name__ == "__main__":
    ThreadingHTTPServer(("", 8080), Model).serve_forever()
