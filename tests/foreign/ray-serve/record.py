"""Ray Serve with a deployment that returns Python values: it writes NaN, and null for a missing
number."""

import os
import sys
from pathlib import Path

os.environ["RAY_raylet_start_wait_time_s"] = "240"  # noqa: SIM112  read when ray is imported; a busy machine needs it

import ray
from ray import serve

sys.path.append(str(Path(__file__).parents[1]))
from recording import free_port, record

OUT = Path(sys.argv[1]).resolve() / "answers"


@serve.deployment
class Half:
    """Half of each number; NaN for negative ones, null for zero, and an error for those over
    100."""

    async def __call__(self, request):
        body = await request.json()
        if "n" in body:
            return {"half": self.half(body["n"])}
        return {"predictions": [self.half(one[0]) for one in body["instances"]]}

    def half(self, number):
        if number > 100:
            raise ValueError("a number over 100")
        return None if number == 0 else float("nan") if number < 0 else number / 2


port = free_port()
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": port})
serve.run(Half.bind(), route_prefix="/half")
url = f"http://127.0.0.1:{port}/half"
nan = {"error": "invalid_prediction", "message": "returned nan"}
null = {"error": "invalid_prediction", "message": "returned null"}
bad = {"error": "server_error"}
record(
    OUT / "http.json",
    url,
    contract={
        "kserve": {"protocolVersion": "http"},
        "request": {
            "body": {"n": "{{ n }}"},
            "outputs": [{"name": "half", "path": "/half", "type": "double"}],
        },
    },
    rows=[{"n": 3}, {"n": -1}, {"n": 0}, {"n": 101}],
    expected=[{"prediction": {"half": 1.5}}, nan, null, {"error": "http_500"}],
)
record(
    OUT / "v1.json",
    url,
    contract={"kserve": {"protocolVersion": "v1", "modelName": "half"}},
    rows=[[3], [-1], [0], [101]],
    expected=[{"prediction": 1.5}, nan, null, bad],
    is_ready=False,
)
serve.shutdown()
ray.shutdown()
