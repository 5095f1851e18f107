"""`InferenceConfig`: which model is asked, where the records come from, where the predictions go, and in which Pod.

Defaults are not filled in here: a field that is None was not set, and the program that starts a run decides, because
a default may change later and must not be frozen into stored objects. `InferenceConfigSpec.model` is the one place
that knows of the two spellings of the model's fields.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import Field, JsonValue

from inferrun import wellknown
from inferrun.resources.references import Metadata, SecretReference
from inferrun.resources.resource_model import ResourceModel
from inferrun.resources.scalars import ResourceName, Seconds
from inferrun.resources.status import InferenceConfigStatus

RUN_AS_USER: Final = 65532
MODEL_VERSIONS: Final = ("v1", "v2")

ModelText = Annotated[str, Field(max_length=2048)]
StorageMap = Annotated[dict[str, JsonValue], Field(max_length=16)]
BackoffLimit = Annotated[int, Field(ge=0, le=100)]
Quantities = Annotated[dict[str, int | Annotated[str, Field(max_length=64)]], Field(max_length=32)]


class AutoDeletePolicy(StrEnum):
    """When a finished run is deleted together with what it left in the cluster."""

    NONE = "None"
    DELETE_ON_SUCCESS = "DeleteOnSuccess"
    DELETE_ON_COMPLETION = "DeleteOnCompletion"


class ImagePullPolicy(StrEnum):
    """When the kubelet pulls the image, in Kubernetes' words."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class KServeModel(ResourceModel):
    """The model server's end of a run; each field is optional because custom images may need none of them."""

    model_name: ModelText | None = None
    """Name of the model, as the model server knows it."""

    model_url: ModelText | None = None
    """URL to which the records are sent, such as sklearn-iris-predictor.models/v2/models/sklearn-iris/infer. Without
    a scheme http:// is meant."""

    model_version: Annotated[str, Field(max_length=16)] | None = None
    """Protocol of the model server: v1 or v2 (Open Inference Protocol). It never becomes part of a path."""

    model_input_name: ModelText | None = None
    """Name of the model's input tensor, such as input-0."""


class Storage(ResourceModel):
    """Where records come from and where predictions go. The labels file and krateo are understood by the product's
    own runner; what stands under any other label is handed unmodified to a custom image."""

    input: StorageMap | None = None
    """Where the records come from: a label (file, krateo, or one that a custom image knows) and its settings."""

    output: StorageMap | None = None
    """Where the predictions go: a label (file, krateo, or one that a custom image knows) and its settings."""


class ResourceRequirements(ResourceModel):
    """What the runner's container asks for and may use, as in a Pod."""

    requests: Quantities | None = None
    """What the container asks for, such as cpu: 500m, memory: 256Mi."""

    limits: Quantities | None = None
    """What the container may use at most."""


class InferenceConfigSpec(ResourceModel):
    """Which model is asked, where the records come from, where the predictions go, and in which Pod."""

    kserve: KServeModel | None = None
    """The model server."""

    model_name: ModelText | None = None
    """The same as kserve.modelName, for manifests that put it here. If both are set, they must be equal."""

    model_url: ModelText | None = None
    """The same as kserve.modelUrl, for manifests that put it here. If both are set, they must be equal."""

    model_version: Annotated[str, Field(max_length=16)] | None = None
    """The same as kserve.modelVersion, for manifests that put it here. If both are set, they must be equal."""

    model_input_name: ModelText | None = None
    """The same as kserve.modelInputName, for manifests that put it here. If both are set, they must be equal."""

    storage: Storage
    """Where the records come from and where the predictions go."""

    image: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^\S+$")] | None = None
    """Image of the runner. Default: the product's own runner. Any image that reads /tmp/contract.json works."""

    image_pull_policy: ImagePullPolicy | None = None
    """When the image is pulled: Always, IfNotPresent or Never. Default: Kubernetes' own rule."""

    credentials_ref: SecretReference | None = None
    """The Secret with which the image is pulled."""

    run_as_user: Annotated[int, Field(ge=1, le=2_147_483_647)] | None = None
    """User ID of the container: any but 0 (root). Default: 65532."""

    auto_delete_policy: AutoDeletePolicy | None = None
    """When a finished run is deleted: None (default), DeleteOnSuccess or DeleteOnCompletion. A schedule is never
    deleted by it."""

    auto_delete_delay_seconds: Seconds | None = None
    """How long after its end a run is deleted, in seconds. Default: 300."""

    backoff_limit: BackoffLimit | None = None
    """How often a failed run is tried again. Default: 2, so at most three attempts."""

    resources: ResourceRequirements | None = None
    """CPU, memory and other resources of the runner's container."""

    ttl_seconds_after_finished: Seconds | None = None
    """How long the Job of a finished run is kept, in seconds. Default: a setting of the installation (one day)."""

    service_account_name: ResourceName | None = None
    """Service account of the Pod, from the list that the operator allows. Default: no account's token is mounted."""

    @property
    def model(self) -> KServeModel:
        """The model's fields in their one canonical form, whichever placement was used.

        Where both are set, kserve wins; `inferrun.resources.validation` tells when they disagree. An empty string counts as
        unset.
        """
        nested = self.kserve or KServeModel()
        return KServeModel(
            model_name=nested.model_name or self.model_name or None,
            model_url=nested.model_url or self.model_url or None,
            model_version=nested.model_version or self.model_version or None,
            model_input_name=nested.model_input_name or self.model_input_name or None,
        )


class InferenceConfig(ResourceModel):
    """How a model is asked for predictions in bulk: the model server, the storage of records and predictions, the
    runner's image and its limits. An InferenceRun names a config and executes it."""

    api_version: str = wellknown.API_VERSION
    kind: str = wellknown.CONFIG_KIND
    metadata: Metadata
    spec: InferenceConfigSpec
    status: InferenceConfigStatus = Field(default_factory=InferenceConfigStatus)

    @classmethod
    def parse(cls, stored: dict[str, Any]) -> Self:  # Any: JSON as the API server returns it
        """The config in `stored`. Raises pydantic.ValidationError; `inferrun.resources.validation` turns that into problems."""
        return cls.model_validate({key: value for key, value in stored.items() if value is not None})


def parse_config(stored: dict[str, Any]) -> InferenceConfig:  # Any: JSON as the API server returns it
    """The InferenceConfig in `stored`. Raises pydantic.ValidationError."""
    return InferenceConfig.parse(stored)
