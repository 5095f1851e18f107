"""The contract between the control plane and a runner image: the content of `/tmp/contract.json`.

The keys are those of the Krateo controller and never change; `runId`, `kserve.protocolVersion`,
`kserve.service`, `errorThreshold`, `canaryRecords`, `dryRun`, `retryOf`, `inputRun`, `interval`,
`tensors`, `request`, `joinSource`, `passThroughColumns`, `kserve.headers` and `kserve.proxyUrl`
were added. Empty members are omitted, except for `kserve`, which is always present. `input` and
`output` are the InferenceConfig's storage maps, in which only placeholders were resolved.
"""

import json
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

from pydantic import Field

from inferrun.camel_case import CamelCase

MAX_BYTES = 256 * 1024
"""Maximum size in bytes of contract and snapshot together. etcd accepts 1.5 MiB, and the status
holds a copy of the contract."""

# Any: a storage object is free-form by design; each store validates its own
FreeForm: TypeAlias = dict[str, Any]


class ServiceRef(CamelCase):
    """Identifies an object of KServe that serves a model by its kind, namespace and name, as a
    config refers to it."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """The name of the part in messages."""
        return f"{self.kind} {self.namespace}/{self.name}"


class ModelService(ServiceRef):
    """The object of KServe that serves the model, as it was when the Job was created."""

    generation: int = 0
    revision: str = ""
    concurrency: int = 0
    """Requests that its replicas accept at a time; 0: unknown."""

    request_seconds: int = 0
    """Its time limit of a request in seconds; 0: unknown."""

    warning: str = ""
    """What about the object conflicts with how the runner works."""

    ca_certificates: str = ""
    """PEM of the authorities that its address needs."""

    ca_secret: str = ""
    """Secret in its namespace with such a certificate as ca.crt or tls.crt."""


class ContractHeader(CamelCase):
    """A header of the requests to the model server."""

    name: str
    """Its name."""

    value: str = ""
    """Its value; empty: that of a Secret, mounted as `endpoints/model-headers/<index>`."""


class Model(CamelCase):
    """The model to call, as given in the InferenceConfig; every member is optional."""

    model_name: str = ""
    model_url: str = ""
    model_version: str = ""
    model_input_name: str = ""
    protocol_version: str = ""
    """Name of the protocol; absent in the Krateo controller's contracts."""

    headers: tuple[ContractHeader, ...] = ()
    """Headers of each request."""

    proxy_url: str = ""
    """URL of the HTTP proxy through which the server is reached."""

    service: ModelService | None = None
    """Only with kserve.serviceRef, which the members above were resolved from."""


class RetriedRun(CamelCase):
    """The ended run whose failed records are predicted again."""

    name: str = ""
    """Its name."""

    run_id: str
    """Its UID."""

    job_name: str
    """Base name of its Jobs, after which its output is named."""

    manifest_sha256: str = ""
    """Digest of its manifest; empty if it has none."""


class InputRun(CamelCase):
    """The run whose committed output is the input."""

    name: str
    """Its name."""

    run_id: str
    """Its UID."""

    job_name: str
    """Base name of its Jobs, after which its output is named."""

    manifest_sha256: str
    """Digest of its manifest."""

    output: FreeForm
    """Where its output is: the storage object by label."""


MAX_SHARDS: Final = 64
"""Pods among which a run may be divided."""


class Duplicates(StrEnum):
    """What happens to records that are the same request as one before."""

    AUTO = "Auto"
    SEND_ONCE = "SendOnce"
    SEND_EACH = "SendEach"


class InputTensor(CamelCase):
    """An input of the model, and the columns that feed it."""

    name: str = ""
    """Its name; empty: the model's only input."""

    columns: tuple[str, ...] = ()
    """Names of the columns, in the order of the tensor; empty, for the only input: the record."""

    datatype: str = ""
    """Datatype of V2; empty: that of the model's metadata."""

    shape: tuple[int, ...] | None = None
    """Shape, with -1 for what is variable; first, the records. Without: the metadata's."""

    parameters: dict[str, bool | int | str] = Field(default_factory=dict)
    """V2's parameters of the input."""

    decode: str = ""
    """Image, if the column has the content of images that become pixels."""


class OutputTensor(CamelCase):
    """An output of the model that becomes part of the predictions."""

    name: str
    """Its name."""

    result_name: str = ""
    """Its name in the predictions; empty: the same."""

    datatype: str = ""
    """Datatype of V2; empty: that of the model's metadata."""

    shape: tuple[int, ...] | None = None
    """Shape, as of an input."""

    type: Literal["", "String", "Binary"] = ""
    """What typed results have for the datatype BYTES; empty: String."""

    parameters: dict[str, bool | int | str] = Field(default_factory=dict)
    """V2's parameters of the output."""


class Tensors(CamelCase):
    """How records become tensors, and tensors predictions."""

    inputs: tuple[InputTensor, ...] = ()
    outputs: tuple[OutputTensor, ...] = ()
    parameters: dict[str, bool | int | str] = Field(default_factory=dict)
    """Parameters of each request."""

    def __bool__(self) -> bool:
        return bool(self.inputs or self.outputs or self.parameters)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that feed the inputs, each once."""
        return tuple(dict.fromkeys(name for tensor in self.inputs for name in tensor.columns))


class RequestMessage(CamelCase):
    """A message of a conversation."""

    role: str
    """Who says it: system, developer, user or assistant."""

    content: str
    """Template of what is said."""


class RequestImage(CamelCase):
    """A column with an image per record."""

    column: str
    """Its name."""

    detail: str = ""
    """How closely the model looks at it: auto, low or high."""


class RequestOutput(CamelCase):
    """A value of the response that becomes a member of the prediction."""

    name: str
    """Its name in the prediction."""

    path: str
    """JSON pointer to it in the response."""

    type: str
    """Its type in Arrow, or json."""


class Request(CamelCase):
    """How a record becomes one request, and its response a prediction; with the protocols openai
    and http."""

    task: str = "Chat"
    """What the server is asked for: Chat, Completion, Embedding, …"""

    prompt: str = ""
    """Template over the columns of the record."""

    system: str = ""
    """Template of the system message, without columns."""

    system_from: FreeForm = Field(default_factory=dict)
    """Where the system message was that is mounted in endpoints/request/system."""

    messages: tuple[RequestMessage, ...] = ()
    """Messages instead of prompt."""

    images: tuple[RequestImage, ...] = ()
    """Columns with images."""

    documents_column: str = ""
    """Column with the documents of Rerank and Score."""

    max_tokens: int = 0
    """Maximum number of tokens of an answer; 0: that of the server."""

    response_schema: FreeForm = Field(default_factory=dict)
    """JSON schema of the answer."""

    response_retries: int = 2
    """How often an answer that violates the schema is asked again."""

    body: FreeForm = Field(default_factory=dict)
    """Further members of the request; its strings are templates."""

    path: str = ""
    """Path and query of the request; empty: those of the task."""

    outputs: tuple[RequestOutput, ...] = ()
    """Values of the response in the prediction."""


RESULT_MEMBERS: Final = ("index", "custom_id", "prediction", "error")
"""Members of a result, whose names a copied column must not have."""


class DataInterval(CamelCase):
    """The span of time whose data a run processes; RFC 3339 in UTC, with whole seconds."""

    start: str
    """Its first moment."""

    end: str
    """The first moment after it."""


class Contract(CamelCase):
    """The task of a runner."""

    job_id: str
    """UID of the run; for a run created by a schedule, UID of the schedule."""

    job_name: str
    """Base name of the run's Jobs."""

    run_id: str = ""
    """UID of the run itself; absent in the Krateo controller's contracts."""

    kserve: Model = Model()
    input: FreeForm = Field(default_factory=dict)
    """Storage object by label."""

    output: FreeForm = Field(default_factory=dict)
    """Storage object by label."""

    parameters: dict[str, str] = Field(default_factory=dict)
    interval: DataInterval | None = None
    """Span of time whose data the run processes."""

    error_threshold: str = ""
    """How many records may fail: a number or a percentage."""

    canary_records: int = 0
    """Number of records that are predicted first."""

    retry_of: RetriedRun | None = None
    """Run whose failed records are predicted again."""

    input_run: InputRun | None = None
    """Run whose output is the input; with the label run."""

    tensors: Tensors = Tensors()
    """Columns of the input tensors, and names of the outputs."""

    request: Request | None = None
    """How records become requests, and responses predictions."""

    join_source: str = ""
    """Input, if all columns of the input are copied to the results."""

    pass_through_columns: tuple[str, ...] = ()
    """Columns that are copied to the results."""

    dry_run: bool = False
    """Whether the run is only checked; nothing is predicted or stored."""


def dump_contract(contract: Contract) -> str:
    """Return the contract as compact JSON without empty members; `kserve` is kept even if it is
    empty."""
    value = contract.model_dump(by_alias=True, exclude_defaults=True)
    value.setdefault("kserve", {})
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
