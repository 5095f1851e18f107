"""MLflow's own scoring server, asked with the protocol `http`: it writes NaN, which is not JSON,
and null."""

import sys
import tempfile
from pathlib import Path

import mlflow
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema

sys.path.append(str(Path(__file__).parents[1]))
from recording import free_port, record, serving

OUT = Path(sys.argv[1]).resolve() / "answers"


class Double(mlflow.pyfunc.PythonModel):
    """Twice the column a; NaN for negative numbers, null for zero."""

    def predict(self, context, model_input, params=None):
        a = model_input["a"].to_numpy()
        if (a > 100).any():
            raise ValueError("a number over 100")
        return [None if one == 0 else float("nan") if one < 0 else one * 2 for one in a.tolist()]


with tempfile.TemporaryDirectory() as made:
    signature = ModelSignature(
        Schema([ColSpec(DataType.double, "a")]), Schema([ColSpec(DataType.double)])
    )
    mlflow.pyfunc.save_model(
        Path(made) / "m", python_model=Double(), signature=signature, pip_requirements=[]
    )
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    mlflow_program = Path(sys.executable).parent / "mlflow"
    command = [
        mlflow_program,
        "models",
        "serve",
        "-m",
        Path(made) / "m",
        "-p",
        port,
        "--env-manager",
        "local",
    ]
    with serving(*command, ready=f"{url}/ping", seconds=240):
        nan = {"error": "invalid_prediction", "message": "returned nan"}
        null = {"error": "invalid_prediction", "message": "returned null"}
        bad = {"error": "http_400"}
        request = {
            "path": "/invocations",
            "body": {"dataframe_records": [{"a": "{{ a }}"}]},
            "outputs": [{"name": "total", "path": "/predictions/0", "type": "double"}],
        }
        rows = [{"a": 1.5}, {"a": -1}, {"a": 0}, {"a": 101}]
        record(
            OUT / "http.json",
            url,
            contract={"kserve": {"protocolVersion": "http"}, "request": request},
            rows=rows,
            expected=[{"prediction": {"total": 3}}, nan, null, bad],
        )
