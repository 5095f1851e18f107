"""The API for stores, protocols and formats: everything that an implementation imports from this project.

An implementation fills one of the seams in `inferrun.plugins.seams` and is registered under an entry point:

    inferrun.stores.input    the label under `storage.input`     OpenInput
    inferrun.stores.output   the label under `storage.output`    OpenOutput
    inferrun.protocols       `kserve.protocol`                   OpenModel
    inferrun.formats         `format` of a storage object        RecordFormat

An opener receives the storage object of its label, or the model, together with a StoreContext or the Limits. It validates
its arguments before doing any I/O, raising ContractError with the field and the allowed values, and yields the open object.
It does not read the environment.
"""

from inferrun.contract import Contract, InputTensor, Model, OutputTensor, RetriedRun, Tensors
from inferrun.plugins.columns import ID_COLUMN, ColumnSelection
from inferrun.plugins.errors import (
    ContractError,
    Fault,
    FaultKind,
    InferenceError,
    InputError,
    OutputError,
    RunnerError,
)
from inferrun.plugins.limits import Limits
from inferrun.plugins.records import ArrowRecords, JsonRecords, Records
from inferrun.plugins.seams import (
    AbortableStore,
    CheckedModel,
    ChunkWriter,
    ColumnFormat,
    CopyingStore,
    EarlierResults,
    InputFile,
    Json,
    MappedModel,
    ModelContext,
    ModelProtocol,
    OpenInput,
    OpenModel,
    OpenOutput,
    OutputStore,
    PeekableSource,
    Piece,
    ProbedStore,
    ReadableResults,
    RecordFormat,
    ResultWriter,
    RetriedStore,
    Source,
    StorageObject,
    StoreContext,
)
from inferrun.plugins.values import (
    NO_USAGE,
    Batch,
    Block,
    Checkpoint,
    Chunk,
    ChunkCommit,
    CommittedRun,
    Counts,
    CustomId,
    InputPlan,
    RecordError,
    ResultCounts,
    Results,
    failed,
    join_results,
)
from inferrun.runner_report import Delivery, Output, TokenUsage

__all__ = [
    "ID_COLUMN",
    "NO_USAGE",
    "AbortableStore",
    "ArrowRecords",
    "Batch",
    "Block",
    "CheckedModel",
    "Checkpoint",
    "Chunk",
    "ChunkCommit",
    "ChunkWriter",
    "ColumnFormat",
    "ColumnSelection",
    "CommittedRun",
    "Contract",
    "ContractError",
    "CopyingStore",
    "Counts",
    "CustomId",
    "Delivery",
    "EarlierResults",
    "Fault",
    "FaultKind",
    "InferenceError",
    "InputError",
    "InputFile",
    "InputPlan",
    "InputTensor",
    "Json",
    "JsonRecords",
    "Limits",
    "MappedModel",
    "Model",
    "ModelContext",
    "ModelProtocol",
    "OpenInput",
    "OpenModel",
    "OpenOutput",
    "Output",
    "OutputError",
    "OutputStore",
    "OutputTensor",
    "PeekableSource",
    "Piece",
    "ProbedStore",
    "ReadableResults",
    "RecordError",
    "RecordFormat",
    "Records",
    "ResultCounts",
    "ResultWriter",
    "Results",
    "RetriedRun",
    "RetriedStore",
    "RunnerError",
    "Source",
    "StorageObject",
    "StoreContext",
    "Tensors",
    "TokenUsage",
    "failed",
    "join_results",
]
