"""LitServe with batches: NaN, null, and an error of one record."""

import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from recording import free_port, record, serving

OUT = Path(sys.argv[1]).resolve() / "answers"
SERVER = """
import sys

import litserve


class Half(litserve.LitAPI):
    def setup(self, device):
        pass

    def decode_request(self, request):
        return request["n"]

    def predict(self, numbers):
        if any(one > 100 for one in numbers):
            raise ValueError("a number over 100")
        return [None if one == 0 else float("nan") if one < 0 else one / 2 for one in numbers]

    def encode_response(self, found):
        return {"half": found}


if __name__ == "__main__":
    api = Half(max_batch_size=8, batch_timeout=0.01)
    litserve.LitServer(api, accelerator="cpu").run(port=int(sys.argv[1]), host="127.0.0.1", generate_client_file=False)
"""
with tempfile.TemporaryDirectory() as made:
    (Path(made) / "server.py").write_text(SERVER)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with serving(
        sys.executable, Path(made) / "server.py", port, ready=f"{url}/health", seconds=240
    ):
        record(
            OUT / "http.json",
            f"{url}/predict",
            contract={
                "kserve": {"protocolVersion": "http"},
                "request": {
                    "body": {"n": "{{ n }}"},
                    "outputs": [{"name": "half", "path": "/half", "type": "double"}],
                },
            },
            rows=[{"n": 3}, {"n": -1}, {"n": 0}, {"n": 101}],
            expected=[
                {"prediction": {"half": 1.5}},
                {"error": "http_500"},  # unlike others, it does not write NaN
                {"error": "invalid_prediction", "message": "returned null"},
                {"error": "http_500"},
            ],
        )
