"""The plug-in API: what it exports and what it imports."""

import json
import subprocess
import sys

from inferrun import plugins

FORBIDDEN = {"runner", "temporalio", "kubernetes", "aiohttp", "httpx", "workflows", "activities"}

EXPORTS = {
    *("AbortableStore", "ProbedStore", "PeekableSource", "CheckedModel"),
    *("RetriedRun", "RetriedStore", "EarlierResults", "JoinableResults", "ReadableResults"),
    *(
        "Contract",
        "Model",
        "Limits",
        "Member",
        "StoreContext",
        "StoreServices",
        "SpooledInput",
        "Survey",
        "StorageObject",
    ),
    *("OpenInput", "OpenOutput", "OpenModel", "SharedStore", "Source", "OutputStore", "ModelProtocol", "RecordFormat"),
    *("ChunkWriter", "Claim", "ModelContext", "InputFile", "Piece", "ResultWriter"),
    *("ArrowRecords", "JsonRecords", "Records", "Json"),
    *("Batch", "Block", "Checkpoint", "Chunk", "ChunkCommit", "CommittedRun", "Counts", "CustomId", "InputPlan"),
    *(
        "RecordError",
        "ResultCounts",
        "Results",
        "failed",
        "join_results",
        "NO_USAGE",
        "Skipped",
        "StoredResult",
        "TokenUsage",
    ),
    *(
        "AdoptingSource",
        "ResultOptions",
        "PipelinedStore",
        "ColumnModel",
        "DescribedModel",
        "TypedFormat",
        "TypedResultFormat",
        "TypedStore",
        "PlannedObject",
    ),
    *("Delivery", "Output"),
    *(
        "ColumnFormat",
        "CompressedResults",
        "ColumnSelection",
        "CopyingStore",
        "ID_COLUMN",
        "InputTensor",
        "OutputTensor",
        "Tensors",
    ),
    *("PartedStore", "StoredPart"),
    *("RunnerError", "ContractError", "InputError", "InferenceError", "OutputError", "Fault", "FaultKind"),
}


def test_the_exports_are_pinned() -> None:
    assert set(plugins.__all__) == EXPORTS
    assert all(hasattr(plugins, name) for name in plugins.__all__)


def test_the_api_imports_no_process_and_no_client() -> None:
    code = "import json, sys, inferrun.plugins; print(json.dumps(sorted({n.partition('.')[0] for n in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert FORBIDDEN.isdisjoint(json.loads(done.stdout))
