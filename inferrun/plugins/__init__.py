"""The API for stores, protocols and formats: everything that an implementation imports from this project.

An implementation fills one of the seams in `inferrun.plugins.seams` and is registered under an entry point:

    inferrun.stores.input    the label under `storage.input`     OpenInput
    inferrun.stores.output   the label under `storage.output`    OpenOutput
    inferrun.protocols       `kserve.modelVersion`               OpenModel
    inferrun.formats         `format` of a storage object        RecordFormat

An opener receives the storage object of its label, or the model, together with a StoreContext or the Limits. It validates
its arguments before doing any I/O, raising ContractError with the field and the allowed values, and yields the open object.
It does not read the environment.
"""

from inferrun.contract import Contract, Model
from inferrun.plugins.errors import ContractError, InferenceError, InputError, OutputError, RunnerError, TransientError
from inferrun.plugins.limits import Limits
from inferrun.plugins.seams import (
    AbortableStore,
    ModelProtocol,
    OpenInput,
    OpenModel,
    OpenOutput,
    OutputStore,
    RecordFormat,
    Source,
    StorageObject,
    StoreContext,
)
from inferrun.plugins.values import (
    Batch,
    Checkpoint,
    Chunk,
    CommittedRun,
    Counts,
    CustomId,
    InputPlan,
    Json,
    Prediction,
    RecordError,
    ResultCounts,
    Row,
    count_predictions,
)
from inferrun.runner_report import Delivery, Output

__all__ = [
    "AbortableStore",
    "Batch",
    "Checkpoint",
    "Chunk",
    "CommittedRun",
    "Contract",
    "ContractError",
    "Counts",
    "CustomId",
    "Delivery",
    "InferenceError",
    "InputError",
    "InputPlan",
    "Json",
    "Limits",
    "Model",
    "ModelProtocol",
    "OpenInput",
    "OpenModel",
    "OpenOutput",
    "Output",
    "OutputError",
    "OutputStore",
    "Prediction",
    "RecordError",
    "RecordFormat",
    "ResultCounts",
    "Row",
    "RunnerError",
    "Source",
    "StorageObject",
    "StoreContext",
    "TransientError",
    "count_predictions",
]
