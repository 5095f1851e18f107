"""`InferenceConfig`: the model server, the input, the output, and the Pod of the runner.

Defaults are not applied here: None means that a field is not set. The program that starts a run
applies them, because a default may change and must not become part of stored objects. Only
`InferenceConfigSpec.model` knows that the model's fields have two placements.
"""

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field, JsonValue

from inferrun import wellknown
from inferrun.contract import MAX_SHARDS, Duplicates
from inferrun.fields.resource_model import ResourceModel
from inferrun.fields.scalars import ResourceName, Seconds
from inferrun.fields.secrets import SecretKey, SecretRef
from inferrun.resources.connection import MAX_HEADERS, ModelHeader
from inferrun.resources.parameters import MAX_PARAMETERS, Parameter
from inferrun.resources.placement import (
    Affinity,
    NodeLabels,
    Placement,
    SpreadConstraints,
    Tolerations,
)
from inferrun.resources.references import Metadata, SecretReference, ServiceReference
from inferrun.resources.request import RequestTemplate
from inferrun.resources.status import InferenceConfigStatus
from inferrun.resources.tensors import ColumnName, TensorMapping

RUN_AS_USER: Final = 65532
AUTO_DELETE_DELAY_SECONDS: Final = 300
CA_BUNDLE_KEY: Final = "cabundle.crt"
MODEL_VERSIONS: Final = ("v1", "v2")
MODEL_FIELDS: Final = {"model_name", "model_url", "model_version", "model_input_name"}
"""The fields of spec.kserve that may be placed in spec, too."""

ModelText = Annotated[str, Field(max_length=2048)]
StorageMap = Annotated[dict[str, JsonValue], Field(max_length=16)]
BackoffLimit = Annotated[int, Field(ge=0, le=100)]
Threshold = int | Annotated[str, Field(max_length=16)]
CanaryRecords = Annotated[int, Field(ge=1, le=1_000_000)]
Shards = Annotated[int, Field(ge=1, le=MAX_SHARDS)]
LEAST_SIZE: Final = "1Ki"
LEAST_WINDOW: Final = "1Mi"
LARGEST_SIZE: Final = "1Ti"

Size = int | Annotated[str, Field(max_length=16)]
Quantity = Annotated[int, Field(strict=True, le=2**63 - 1)] | Annotated[str, Field(max_length=64)]
Quantities = Annotated[dict[str, Quantity], Field(max_length=32)]


class AutoDeletePolicy(StrEnum):
    """When a finished run and its Job are deleted automatically."""

    NONE = "None"
    DELETE_ON_SUCCESS = "DeleteOnSuccess"
    DELETE_ON_COMPLETION = "DeleteOnCompletion"


class ImagePullPolicy(StrEnum):
    """When the kubelet pulls the image, as in a Pod."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class KServeModel(ResourceModel):
    """The model server. All fields are optional, because a custom image may not need them."""

    model_name: ModelText | None = None
    """Name of the model on the model server. Default with serviceRef: the name of the object's
    model. To use a LoRA adapter of an LLMInferenceService, set the name of the adapter."""

    model_url: ModelText | None = None
    """URL of the model's inference endpoint, such as
    sklearn-iris-predictor.models/v2/models/sklearn-iris/infer. The default scheme is http."""

    service_ref: ServiceReference | None = None
    """Object of KServe that serves the model, instead of modelUrl. Each launch takes the address,
    the model's name and the protocol from its status, and waits until the model answers."""

    model_version: Annotated[str, Field(max_length=16)] | None = None
    """Inference protocol of the model server: v1 or v2 (Open Inference Protocol). It is not added
    to the URL."""

    model_input_name: ModelText | None = None
    """Name of the model's input tensor, such as input-0."""

    protocol_version: (
        Annotated[str, Field(max_length=32, pattern=r"^[a-z0-9][a-z0-9-]*$")] | None
    ) = None
    """Protocol of the model server: v2 (Open Inference Protocol over REST), grpc-v2 (the same over
    gRPC), v1 (`:predict`), openai (OpenAI's API), or the name of a protocol that a plug-in in
    spec.image provides. Takes precedence over modelVersion. Default with serviceRef: the protocol
    of the object; otherwise the runner asks the server, for v2, v1 and openai."""

    warm_up_seconds: Seconds | None = None
    """Maximum number of seconds for which an init container waits until the model answers, which
    timeoutSeconds does not count; 0: no init container. Default: with serviceRef the installation's
    setting warmUpSeconds, with modelUrl 0."""

    credentials_ref: SecretRef | None = None
    """Secret with the credentials for the model server, in the run's namespace. Keys: token (bearer
    token), or username and password (basic authentication); ca.crt (authority of the server's
    certificate); tls.crt and tls.key (client certificate); proxy-url (proxyUrl, if it contains
    credentials)."""

    headers: Annotated[tuple[ModelHeader, ...], Field(max_length=MAX_HEADERS)] | None = None
    """Headers of each request to the model server, such as api-key or Host; with the protocol
    grpc-v2 its metadata. Headers that frame a request or describe its body cannot be set."""

    proxy_url: ModelText | None = None
    """URL of the HTTP proxy through which the runner reaches the model server, such as
    http://proxy.egress:3128; not with the protocol grpc-v2. Default: none; the proxies of the
    environment are not used."""

    token_audience: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^\S+$")] | None = (
        None
    )
    """Audience of a token of the Pod's service account, which the kubelet renews and the runner
    sends as bearer token. Requires serviceAccountName. Default: none."""


class ConfigMapKey(ResourceModel):
    """One key of a ConfigMap."""

    name: ResourceName
    """Name of a ConfigMap in the namespace of the run."""

    key: SecretKey | None = None
    """Key of the ConfigMap. Default: cabundle.crt, as in KServe's own ConfigMaps."""


class CABundle(ResourceModel):
    """Certificates of authorities, in PEM."""

    config_map_ref: ConfigMapKey
    """Key of a ConfigMap that contains them."""


class ModelRequests(ResourceModel):
    """How the built-in runner sends requests. By default their size and number follow the speed of
    the model."""

    max_batch_records: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Maximum number of records in one request. Default: 1000. With the protocol openai, each
    record is a request."""

    target_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None
    """Duration of a request in seconds that the runner aims at: requests to slow models have fewer
    records. 0: each request has maxBatchRecords records. Default: 5."""

    concurrency: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Number of concurrent requests to the model server. Default: the runner finds it, and follows
    the server."""

    timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = None
    """Timeout of one request to the model server in seconds. Default: 300."""

    duplicates: Duplicates | None = None
    """What happens to records that are the same request as an earlier one of the run. SendOnce: only
    the first one is sent, and the others get its answer. SendEach: all are sent. Auto: SendOnce if
    each record is a request and its answer does not vary, which is so for embeddings, ranking and
    moderation, and for language models with temperature 0 or a seed, and without tools. Default:
    Auto."""

    storage_timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = None
    """Seconds without data from a data handler or an object store before a request to it fails.
    Default: 600."""


class RunnerLimits(ResourceModel):
    """Memory, disk and sizes that the built-in runner observes: bytes, or quantities such as
    64Mi."""

    chunk: Size | None = None
    """Input in one chunk, the unit of commit and resume. Default: a 128th of the input, between
    16Ki and 4Mi."""

    record: Size | None = None
    """Maximum size of a record; longer ones are rejected. Default: 16Mi."""

    window: Size | None = None
    """Memory of the decoded records that are held between reading and writing, at least 1Mi.
    Default: 64Mi."""

    response: Size | None = None
    """Maximum size of a response of the model server. A request with a longer one is divided.
    Default: 64Mi."""

    spool: Size | None = None
    """Disk of the Pod for the input, and the same for the output. What the Pod may use in total is
    limited by resources.limits.ephemeral-storage; without it, by the installation's setting
    runnerTmpSize. Default: 8Gi."""


class JoinSource(StrEnum):
    """Whether the input is part of the results."""

    NONE = "None"
    INPUT = "Input"


class Storage(ResourceModel):
    """Input and output. The built-in runner supports the labels file, s3, gcs, azure, sql, krateo,
    and for the input http and run; settings under any other label are passed unmodified to a custom
    image."""

    input: StorageMap | None = None
    """Source of the records: a label (file, s3, gcs, azure, http, krateo, run, sql, or one that a
    custom image supports) with its settings."""

    output: StorageMap | None = None
    """Destination of the predictions: a label (file, s3, gcs, azure, krateo, sql, or one that a
    custom image supports) with its settings."""


class ResourceRequirements(ResourceModel):
    """Resource requests and limits of the runner's container, as in a Pod."""

    requests: Quantities | None = None
    """Requested amounts, such as cpu: 500m and memory: 256Mi."""

    limits: Quantities | None = None
    """Maximum amounts."""


class InferenceConfigSpec(ResourceModel):
    """Model server, input, output, and the Pod of the runner."""

    kserve: KServeModel | None = None
    """The model server."""

    model_name: ModelText | None = None
    """Alternative to kserve.modelName. If both are set, they must be equal."""

    model_url: ModelText | None = None
    """Alternative to kserve.modelUrl. If both are set, they must be equal."""

    model_version: Annotated[str, Field(max_length=16)] | None = None
    """Alternative to kserve.modelVersion. If both are set, they must be equal."""

    model_input_name: ModelText | None = None
    """Alternative to kserve.modelInputName. If both are set, they must be equal."""

    requests: ModelRequests | None = None
    """Size, number and timeouts of the requests that the built-in runner sends."""

    limits: RunnerLimits | None = None
    """Memory, disk and sizes that the built-in runner observes."""

    storage: Storage
    """Source of the records and destination of the predictions. Paths, URLs, queries and tables of
    the labels of the built-in runner may contain placeholders such as $(params.region),
    $(interval.start:%Y-%m-%d) and $(run.name)."""

    parameters: Annotated[tuple[Parameter, ...], Field(max_length=MAX_PARAMETERS)] | None = None
    """Parameters that runs may set. A run that sets another one, or omits a required one, is
    rejected. Default: any are allowed."""

    request: RequestTemplate | None = None
    """How a record becomes a request, and its response a prediction: prompts from columns with the
    protocol openai, any JSON with http. Custom images find it in the contract."""

    tensors: TensorMapping | None = None
    """Columns that feed the model's inputs, and names of its outputs in the predictions; with the
    protocols v1, v2 and grpc-v2. The names are compared with the model's metadata before the first
    request. Custom images find it in the contract."""

    join_source: JoinSource | None = None
    """Input copies all columns of the input to the results, None (the default) copies none but
    custom_id. Custom images find it in the contract."""

    pass_through_columns: Annotated[tuple[ColumnName, ...], Field(max_length=256)] | None = None
    """Columns of the input that are copied to the results. Without tensors.inputs, they do not feed
    the model. Custom images find it in the contract."""

    ca_bundle: CABundle | None = None
    """Certificates of authorities that the built-in runner trusts besides those of its image: for
    the model server, data handlers and object stores. In every image, they are in the file that the
    environment variable INFERRUN_CA_BUNDLE names."""

    image: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^\S+$")] | None = None
    """Image of the runner. Default: the installation's runner image. Any image that reads
    /tmp/contract.json can be used."""

    image_pull_policy: ImagePullPolicy | None = None
    """When the image is pulled: Always, IfNotPresent or Never. Default: as in Kubernetes, Always
    for the tag latest, otherwise IfNotPresent."""

    credentials_ref: SecretReference | None = None
    """Secret with the credentials for pulling the image."""

    run_as_user: Annotated[int, Field(ge=1, le=2_147_483_647)] | None = None
    """User ID of the container; 0 (root) is not allowed. Default: 65532."""

    auto_delete_policy: AutoDeletePolicy | None = None
    """When a finished run is deleted automatically: None (never, the default), DeleteOnSuccess or
    DeleteOnCompletion. Schedules are not affected."""

    auto_delete_delay_seconds: Seconds | None = None
    """Delay in seconds between the end of a run and its automatic deletion. Default: 300."""

    backoff_limit: BackoffLimit | None = None
    """Maximum number of retries of a failed run. Default: 2, for a total of three attempts."""

    error_threshold: Threshold | None = None
    """How many records may fail: a number, or a percentage of the records such as 5%. If more fail,
    the run fails at once and is not retried. Default: a run fails only if all of its records fail.
    Custom images find it in the contract."""

    canary_records: CanaryRecords | None = None
    """Number of records that are predicted first. If more of them fail than errorThreshold allows
    (without errorThreshold: if all of them fail), the run fails before the other records are sent.
    Default: none. Custom images find it in the contract."""

    shards: Shards | None = None
    """Number of Pods among which a run is divided. Each has the resources and the number of
    requests that this config states. More than 1 requires the built-in runner, an input of the
    label file, s3, gcs, azure or run, and an output of the label file, s3, gcs or azure. Default:
    1."""

    resources: ResourceRequirements | None = None
    """CPU, memory, ephemeral-storage and other resources of the runner's container."""

    node_selector: NodeLabels | None = None
    """Labels of the nodes on which the Pods run, such as cloud.google.com/gke-spot: "true". Each
    must be allowed by the installation's setting allowedNodeLabels."""

    affinity: Affinity | None = None
    """Nodes on which the Pods run, or which are preferred. Labels must be allowed by the
    installation's setting allowedNodeLabels."""

    tolerations: Tolerations | None = None
    """Taints of nodes on which the Pods may run. Each must be allowed by the installation's setting
    allowedTolerations."""

    topology_spread_constraints: SpreadConstraints | None = None
    """How the Pods of a run of several shards are spread over nodes. With DoNotSchedule, every
    value of the label must be allowed by the installation's setting allowedNodeLabels."""

    priority_class_name: ResourceName | None = None
    """Priority class of the Pods; must be allowed by the installation's setting
    allowedPriorityClasses."""

    runtime_class_name: ResourceName | None = None
    """Runtime class of the Pods; must be allowed by the installation's setting
    allowedRuntimeClasses."""

    ttl_seconds_after_finished: Seconds | None = None
    """Seconds for which the Job of a finished run is kept. Default: the installation's setting
    jobTtlSeconds (one day)."""

    service_account_name: ResourceName | None = None
    """Service account of the Pod; must be allowed by the installation's setting
    allowedServiceAccounts. Default: no service account token is mounted."""

    @property
    def placement(self) -> Placement:
        """Where the Pods run."""
        return Placement.model_validate(self.model_dump(include=set(Placement.model_fields)))

    @property
    def delete_after_seconds(self) -> int:
        """`autoDeleteDelaySeconds` or its default, which leaves time to inspect a finished run."""
        delay = self.auto_delete_delay_seconds
        return AUTO_DELETE_DELAY_SECONDS if delay is None else delay

    @property
    def model(self) -> KServeModel:
        """The model's fields, regardless of their placement.

        If both are set, kserve takes precedence; `inferrun.resources.validation` reports a
        difference. An empty string counts as not set.
        """
        nested = self.kserve or KServeModel()
        found = {
            name: getattr(nested, name) or getattr(self, name) or None for name in MODEL_FIELDS
        }
        return nested.model_copy(update=found)


class InferenceConfig(ResourceModel):
    """Configuration of batch inference: the model server, the source of the records, the
    destination of the predictions, and the runner's image and resources. An InferenceRun executes a
    config."""

    api_version: str = wellknown.API_VERSION
    kind: str = wellknown.CONFIG_KIND
    metadata: Metadata
    spec: InferenceConfigSpec
    status: InferenceConfigStatus = Field(default_factory=InferenceConfigStatus)


# Any: JSON as the API server returns it
def parse_config(stored: dict[str, Any]) -> InferenceConfig:
    """The InferenceConfig in `stored`. Raises pydantic.ValidationError, which
    `inferrun.resources.validation` translates."""
    return InferenceConfig.model_validate(
        {key: value for key, value in stored.items() if value is not None}
    )
