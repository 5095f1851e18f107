"""The API for stores, protocols and formats: everything that an implementation imports from this
project.

An implementation fills one of the seams in `inferrun.plugins.seams` and is registered under an
entry point:

    inferrun.stores.input    the label under `storage.input`     OpenInput
    inferrun.stores.output   the label under `storage.output`    OpenOutput
    inferrun.protocols       `kserve.protocolVersion`            OpenModel
    inferrun.formats         `format` of a storage object        RecordFormat

`inferrun.plugins.storage` validates storage objects and reads mounted Secrets,
`inferrun.plugins.http` describes the HTTP client that `StoreContext.services` opens, and
`inferrun.plugins.rows` validates rows of numbers.

An opener receives the storage object of its label, or the model, together with a StoreContext or
the Limits. It validates its arguments before doing any I/O, raising ContractError with the field
and the allowed values, and yields the open object. It does not read the environment.
"""

from inferrun.contract import (
    Contract,
    Duplicates,
    InputTensor,
    Model,
    OutputTensor,
    RetriedRun,
    Tensors,
)
from inferrun.plugins.columns import ID_COLUMN, ColumnSelection
from inferrun.plugins.errors import (
    ContractError,
    Fault,
    FaultKind,
    InferenceError,
    InputError,
    MixedBatch,
    OutputError,
    RunnerError,
)
from inferrun.plugins.limits import Limits
from inferrun.plugins.records import ArrowRecords, JsonRecords, Records
from inferrun.plugins.seams import (
    AnswerStore,
    ChunkWriter,
    EarlierResults,
    FormatAbilities,
    InputFile,
    JoinFiles,
    Json,
    ModelAbilities,
    ModelContext,
    ModelProtocol,
    OpenInput,
    OpenModel,
    OpenOutput,
    OutputStore,
    Piece,
    ReadableResults,
    RecordFormat,
    ResultWriter,
    SharedStore,
    Source,
    SourceAbilities,
    SpooledInput,
    StorageObject,
    StoreAbilities,
    StoreContext,
    StoreServices,
    TypedFormat,
)
from inferrun.plugins.values import (
    NO_USAGE,
    Batch,
    Block,
    Checkpoint,
    Chunk,
    ChunkCommit,
    Claim,
    CommittedRun,
    Counts,
    CustomId,
    InputPlan,
    Member,
    PlannedObject,
    RecordError,
    ResultCounts,
    ResultOptions,
    Results,
    Skipped,
    StoredPart,
    StoredResult,
    Survey,
    failed,
    join_results,
)
from inferrun.runner_report import Delivery, Output, TokenUsage

__all__ = [
    "ID_COLUMN",
    "NO_USAGE",
    "AnswerStore",
    "ArrowRecords",
    "Batch",
    "Block",
    "Checkpoint",
    "Chunk",
    "ChunkCommit",
    "ChunkWriter",
    "Claim",
    "ColumnSelection",
    "CommittedRun",
    "Contract",
    "ContractError",
    "Counts",
    "CustomId",
    "Delivery",
    "Duplicates",
    "EarlierResults",
    "Fault",
    "FaultKind",
    "FormatAbilities",
    "InferenceError",
    "InputError",
    "InputFile",
    "InputPlan",
    "InputTensor",
    "JoinFiles",
    "Json",
    "JsonRecords",
    "Limits",
    "Member",
    "MixedBatch",
    "Model",
    "ModelAbilities",
    "ModelContext",
    "ModelProtocol",
    "OpenInput",
    "OpenModel",
    "OpenOutput",
    "Output",
    "OutputError",
    "OutputStore",
    "OutputTensor",
    "Piece",
    "PlannedObject",
    "ReadableResults",
    "RecordError",
    "RecordFormat",
    "Records",
    "ResultCounts",
    "ResultOptions",
    "ResultWriter",
    "Results",
    "RetriedRun",
    "RunnerError",
    "SharedStore",
    "Skipped",
    "Source",
    "SourceAbilities",
    "SpooledInput",
    "StorageObject",
    "StoreAbilities",
    "StoreContext",
    "StoreServices",
    "StoredPart",
    "StoredResult",
    "Survey",
    "Tensors",
    "TokenUsage",
    "TypedFormat",
    "failed",
    "join_results",
]
