"""The settings of a runner process, read once from the environment.

Each setting and each limit is read from the variable `INFERRUN_` followed by its name in capitals,
except for those whose names are not ours. The control plane sets what differs between launches.
"""

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inferrun.contract import MAX_SHARDS
from inferrun.plugins import ContractError, Limits

_PREFIX = "INFERRUN_"
_OTHER_NAMES = {
    "pod_uid": "pod_uid",
    "shard": "JOB_COMPLETION_INDEX",
    "collector": "OTEL_EXPORTER_OTLP_ENDPOINT",
    "trace_parent": "TRACEPARENT",
}


class Settings(BaseModel):
    """Paths, identity and time limit of the process, and the limits of its run."""

    model_config = ConfigDict(frozen=True)

    contract: Path = Path("/tmp/contract.json")  # noqa: S108  the Krateo controller's path, which every image reads
    """Path of the contract. `/tmp/contract.json`, where every runner image expects it."""

    input_dir: Path = Path("/data/input")
    """Mount point of the claim of a `file` input, read-only. Fixed by the Pod template."""

    output_dir: Path = Path("/data/output")
    """Mount point of the claim of a `file` output. Fixed by the Pod template."""

    endpoints_dir: Path = Path("/etc/inferrun/endpoints")
    """Contains the mounted Secrets of input, output and model, each a folder with one file per key.
    Fixed by the Pod template."""

    termination_log: Path = Path("/dev/termination-log")
    """Path to which the result is written. The kubelet's default."""

    spool_dir: Path = Path("/tmp")  # noqa: S108  an emptyDir of the Pod
    """Folder for temporary files. `/tmp`, the only writable folder of every Pod."""

    ca_bundle: Path | None = None
    """File with certificates of authorities that are trusted besides those of the image. Set by the
    control plane if the config has spec.caBundle."""

    pod_uid: str = ""
    """UID of the Pod, which distinguishes attempts in the store. Empty outside a Pod."""

    attempt: int = Field(default=1, ge=1)
    """Number of this attempt, for logs only. 1 outside a Pod."""

    launch: int = Field(default=1, ge=1)
    """Number of this launch: what Pods of earlier launches have claimed is free. 1 outside a
    Pod."""

    shards: int = Field(default=1, ge=1, le=MAX_SHARDS)
    """Number of Pods among which the run is divided. Set by the control plane from
    `spec.shards`."""

    shard: int = Field(default=0, ge=0)
    """Number of this Pod among them, from 0. Kubernetes sets it in the Pods of an indexed Job."""

    claim_seconds: float = Field(default=30.0, gt=0)
    """Only with several Pods: seconds without a sign of life after which the other Pods take over
    what a Pod has claimed; there are six signs in that time. Default 30: if a Pod is only slow, a
    few requests are sent twice."""

    seconds_left: float | None = Field(default=None, allow_inf_nan=False)
    """Seconds from the start of the process until the run's deadline; 0 or less: the deadline has
    passed. Absent: no limit."""

    warm_up_seconds: float = Field(default=0.0, ge=0)
    """Seconds for which the init container waits until the model answers. 0: no limit."""

    record_limit: int = Field(default=0, ge=0)
    """Number of records that are read, the first ones. Default 0: all. Set by `inferrun local`."""

    progress_seconds: float = Field(default=2.0, ge=0)
    """Minimum seconds between two progress lines. 2: the worker reads the log every 5 seconds at
    most."""

    collector: str = ""
    """Address of the collector that gets spans by OTLP over HTTP. Set by the control plane if the
    operator has named one."""

    trace_parent: str = ""
    """The launch in the trace of the run, as in the header `traceparent`. Set with the one
    above."""

    limits: Limits = Limits()
    """Limits that stores, protocols and formats share; each is a variable of its own."""


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read the settings from an environment. Raises ContractError with the variable and what is
    allowed."""
    try:
        limits = Limits.model_validate(_values(environ, Limits))
        return Settings.model_validate({**_values(environ, Settings), "limits": limits})
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        name = variable_of(str(wrong["loc"][0]))
        raise ContractError(
            f"environment variable {name}: {wrong['msg']}, got {wrong['input']!r}"
        ) from error


def settings_for_failures(environ: Mapping[str, str]) -> Settings:
    """Return the settings with which the failure to read the others is reported."""
    path = environ.get(variable_of("termination_log"), "")
    return Settings(termination_log=Path(path)) if path else Settings()


def variable_of(field: str) -> str:
    """The environment variable of a setting or limit."""
    return _OTHER_NAMES.get(field, _PREFIX + field.upper())


def _values(environ: Mapping[str, str], model: type[BaseModel]) -> dict[str, object]:
    """The variables of a model's fields; an empty variable is treated as absent."""
    found = {field: environ.get(variable_of(field), "") for field in model.model_fields}
    return {field: text for field, text in found.items() if text}
