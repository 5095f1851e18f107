"""Triton: batches, outputs of a variable size, optional inputs, a model without a dimension for
records, NaN, one bad record.

PyTriton starts Triton itself, with Python's functions as models.
"""

import os
import sys
import sysconfig
from pathlib import Path

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

sys.path.append(str(Path(__file__).parents[1]))
from recording import free_port, record

# Triton's Python backend is linked to libpython, and must find that of this Python, not one of the
# system.
os.environ["LD_LIBRARY_PATH"] = sysconfig.get_config_var("LIBDIR")

OUT = Path(sys.argv[1]).resolve() / "answers"


@batch
def total(x, discount=None):
    """The sum of each record, times 0.5 if a discount is given."""
    if (x < 0).any():
        raise ValueError("a negative number")
    return [x.sum(axis=1, keepdims=True) * np.float32(1 if discount is None else 0.5)]


@batch
def root(x):
    """The square root, which is NaN for negative numbers."""
    with np.errstate(invalid="ignore"):
        return [np.sqrt(x)]


@batch
def detect(x):
    """A row of four numbers for each object that is found, as many as the largest number of the
    batch.

    None are possible in Triton, but PyTriton 0.7.0 cannot pass them on: it casts a memoryview
    without items.
    """
    return [np.full((len(x), int(x.max()), 4), 0.5, np.float32)]


def total_of_one(requests):
    """The sum of the only record of each request."""
    return [{"y": one["x"].sum(keepdims=True)} for one in requests]


F32, BATCHED = np.float32, ModelConfig(max_batch_size=8)
http, grpc, metrics = free_port(), free_port(), free_port()
with Triton(
    config=TritonConfig(
        http_port=http, grpc_port=grpc, metrics_port=metrics, http_address="127.0.0.1"
    )
) as triton:
    x = Tensor(name="x", dtype=F32, shape=(-1,))
    y = [Tensor(name="y", dtype=F32, shape=(1,))]
    optional = Tensor(name="discount", dtype=F32, shape=(1,), optional=True)
    triton.bind("sum", total, [x, optional], y, config=BATCHED)
    triton.bind("root", root, [Tensor(name="x", dtype=F32, shape=(1,))], y, config=BATCHED)
    boxes = [Tensor(name="boxes", dtype=F32, shape=(-1, 4))]
    triton.bind("detect", detect, [Tensor(name="x", dtype=F32, shape=(1,))], boxes, config=BATCHED)
    fixed = Tensor(name="x", dtype=F32, shape=(3,))
    triton.bind("fixed", total_of_one, [fixed], y, config=ModelConfig(batching=False))
    triton.run()
    url = f"http://127.0.0.1:{http}"

    def recorded(name, model, rows, expected, **contract):
        kserve = {"modelName": model, "protocolVersion": "v2"}
        record(
            OUT / f"{name}.json",
            url,
            contract={"kserve": kserve, **contract},
            rows=rows,
            expected=expected,
        )

    x_of = {"inputs": [{"name": "x", "columns": ["x"]}]}
    recorded("sums", "sum", [[1, 2], [3, 4], [5, 6]], [{"prediction": n} for n in (3, 7, 11)])
    recorded(
        "optional-input",
        "sum",
        [{"x": 1}, {"x": 2}],
        [{"prediction": 1}, {"prediction": 2}],
        tensors=x_of,
    )
    recorded(
        "optional-input-dry-run",
        "sum",
        [{"x": 1}, {"x": 2}],
        {"code": 0, "message": "dry run"},
        tensors=x_of,
        dryRun=True,
    )
    recorded(
        "one-bad-record",
        "sum",
        [[1, 2], [-3, 4], [5, 6]],
        [{"prediction": 3}, {"error": "server_error"}, {"prediction": 11}],
    )
    nan = {"error": "invalid_prediction", "message": "the model returned nan"}
    recorded("nan", "root", [[4], [-1], [9]], [{"prediction": 2}, nan, {"prediction": 3}])
    recorded("objects", "detect", [[1], [1]], [{"prediction": [[0.5] * 4]}] * 2)
    recorded(
        "no-dimension-for-records",
        "fixed",
        [[1, 2, 3], [4, 5, 6]],
        [{"prediction": 6}, {"prediction": 15}],
        tensors={"inputs": [{"name": "x", "shape": [3]}]},
    )
    recorded(
        "no-dimension-for-records-unstated",
        "fixed",
        [[1, 2, 3], [4, 5, 6]],
        {"code": 4, "message": "tensors.inputs[].shape"},
    )
