"""BentoML with adaptive batching: NaN, null, and an error of one record that all requests of its
batch are answered with."""

import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from recording import free_port, record, serving

OUT = Path(sys.argv[1]).resolve() / "answers"
SERVICE = """
import bentoml


def half(number):
    if number > 100:
        raise ValueError("a number over 100")
    return None if number == 0 else float("nan") if number < 0 else number / 2


@bentoml.service(workers=1)
class Half:
    @bentoml.api(batchable=True)
    def halves(self, numbers: list[float]) -> list:
        return [half(one) for one in numbers]

    @bentoml.api
    def one(self, number: float) -> dict:
        return {"half": half(number)}
"""
with tempfile.TemporaryDirectory() as made:
    (Path(made) / "service.py").write_text(SERVICE)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    program = Path(sys.executable).parent / "bentoml"
    quiet = {"BENTOML_DO_NOT_TRACK": "True"}
    command = [
        program,
        "serve",
        "service:Half",
        "--working-dir",
        made,
        "--port",
        port,
        "--host",
        "127.0.0.1",
    ]
    with serving(*command, ready=f"{url}/readyz", env=quiet, seconds=240):
        nan = {"error": "invalid_prediction", "message": "returned null"}
        null = {"error": "invalid_prediction", "message": "returned null"}

        def recorded(name, path, body, pointer):
            output = {"name": "half", "path": pointer, "type": "double"}
            record(
                OUT / f"{name}.json",
                url,
                contract={
                    "kserve": {"protocolVersion": "http"},
                    "request": {"path": path, "body": body, "outputs": [output]},
                },
                rows=[{"n": 3}, {"n": -1}, {"n": 0}, {"n": 101}],
                expected=[{"prediction": {"half": 1.5}}, nan, null, {"error": "http_500"}],
            )

        recorded("one", "/one", {"number": "{{ n }}"}, "/half")
        recorded("batched", "/halves", {"numbers": ["{{ n }}"]}, "/0")
