"""MLServer: the runtimes for scikit-learn and MLflow, and one of its own; NaN, one bad record, and
names of outputs."""

import json
import sys
import tempfile
from pathlib import Path

import joblib
import mlflow
import numpy as np
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema
from sklearn.linear_model import LinearRegression

sys.path.append(str(Path(__file__).parents[1]))
from recording import free_port, record, serving

OUT = Path(sys.argv[1]).resolve() / "answers"
RUNTIME = '''
import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class Root(MLModel):
    """The square root of each record; NaN for negative numbers, and an error for those over 100."""

    async def load(self):
        return True

    async def predict(self, payload):
        x = NumpyCodec.decode_input(payload.inputs[0]).astype("float64")
        if (x > 100).any():
            raise ValueError("a number over 100")
        with np.errstate(invalid="ignore"):
            return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", np.sqrt(x))])
'''


class Double(mlflow.pyfunc.PythonModel):
    """Twice the column a, whose output has no name; NaN for negative numbers."""

    def predict(self, context, model_input, params=None):
        a = model_input["a"].to_numpy()
        return np.where(a < 0, np.nan, a * 2).reshape(-1, 1)


def settings(folder, **members):
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "model-settings.json").write_text(json.dumps({"name": folder.name, **members}))


with tempfile.TemporaryDirectory() as made:
    models = Path(made)
    x = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
    joblib.dump(LinearRegression().fit(x, x.sum(axis=1)), models / "sum.joblib")
    settings(
        models / "sum",
        implementation="mlserver_sklearn.SKLearnModel",
        parameters={"uri": str(models / "sum.joblib"), "version": "1"},
    )
    settings(models / "root", implementation="runtime.Root")
    (models / "root" / "runtime.py").write_text(RUNTIME)
    saved = Schema([ColSpec(DataType.double, "a")]), Schema([ColSpec(DataType.double)])
    mlflow.pyfunc.save_model(
        models / "saved",
        python_model=Double(),
        signature=ModelSignature(*saved),
        pip_requirements=[],
    )
    settings(
        models / "total",
        implementation="mlserver_mlflow.MLflowRuntime",
        parameters={"uri": str(models / "saved")},
    )
    http, grpc, metrics = free_port(), free_port(), free_port()
    ports = {
        "http_port": http,
        "grpc_port": grpc,
        "metrics_port": metrics,
        "host": "127.0.0.1",
        "parallel_workers": 0,
    }
    (models / "settings.json").write_text(json.dumps(ports))
    url = f"http://127.0.0.1:{http}"
    program = Path(sys.executable).parent / "mlserver"
    with serving(program, "start", models, ready=f"{url}/v2/health/ready", seconds=240):

        def recorded(name, model, rows, expected, **contract):
            kserve = {"modelName": model, "protocolVersion": "v2"}
            record(
                OUT / f"{name}.json",
                url,
                contract={"kserve": kserve, **contract},
                rows=rows,
                expected=expected,
            )

        # A linear regression is right to the last digit only by chance.
        fp64 = {"inputs": [{"datatype": "FP64"}], "outputs": [{"name": "predict"}]}
        recorded("sklearn", "sum", [[1, 2], [3, 4]], [{}, {}], tensors=fp64)
        nan = {"error": "invalid_prediction", "message": "the model returned n"}
        one = {"inputs": [{"name": "x", "datatype": "FP64"}]}
        recorded(
            "nan",
            "root",
            [[4], [-1], [9]],
            [{"prediction": 2}, nan, {"prediction": 3}],
            tensors=one,
        )
        bad = {"error": "server_error"}
        recorded(
            "one-bad-record",
            "root",
            [[4], [101], [9]],
            [{"prediction": 2}, bad, {"prediction": 3}],
            tensors=one,
        )
        a = {"inputs": [{"name": "a", "columns": ["a"]}]}
        rows, found = [{"a": 1.5}, {"a": 2}], [{"prediction": 3}, {"prediction": 4}]
        recorded("mlflow", "total", rows, found, tensors=a)
        named = {**a, "outputs": [{"name": "output-1", "resultName": "total"}]}
        recorded(
            "mlflow-named-output",
            "total",
            rows,
            [{"prediction": {"total": 3}}, {"prediction": {"total": 4}}],
            tensors=named,
        )
        recorded(
            "mlflow-nan", "total", [{"a": 1.5}, {"a": -1}], [{"prediction": 3}, nan], tensors=a
        )
