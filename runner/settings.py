"""The settings of one runner process, read once from its environment.

Every setting is the variable `INFERRUN_` and the field's name in capitals (`pod_uid` alone keeps the name it always had).
The control plane sets what differs from launch to launch; the limits have defaults that suit most models.
"""

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runner.errors import ContractError

KIB = 1024
MIB = 1024 * KIB
_PREFIX = "INFERRUN_"


class Settings(BaseModel):
    """Where things are, how long there is, and how much is held at once."""

    model_config = ConfigDict(frozen=True)

    contract: Path = Path("/tmp/contract.json")  # noqa: S108  the Krateo controller's path, which every image reads
    """The work order. A path; `/tmp/contract.json` because every runner image looks there."""

    input_dir: Path = Path("/data/input")
    """Where the claim of a `file` input is mounted, read-only. A path; fixed by the Pod's template."""

    output_dir: Path = Path("/data/output")
    """Where the claim of a `file` output is mounted. A path; fixed by the Pod's template."""

    endpoints_dir: Path = Path("/etc/inferrun/endpoints")
    """Holds `input/` and `output/`, the mounted endpoint Secrets, one file for each key. A path; fixed by the template."""

    termination_log: Path = Path("/dev/termination-log")
    """Where the result is written at the end. A path; the kubelet's default."""

    spool_dir: Path = Path("/tmp")  # noqa: S108  an emptyDir of the Pod
    """Where answers and predictions are spooled. A path; `/tmp` is the one writable folder that each Pod has."""

    pod_uid: str = ""
    """The Pod's UID, which tells attempts apart in the store. Text; empty outside a Pod."""

    attempt: int = Field(default=1, ge=1)
    """The number of this attempt, for logs and the output's records only. A count; 1 outside a Pod."""

    seconds_left: float | None = None
    """Seconds from the process's start until it must end itself; none are left at 0 or below. Absent: no limit."""

    batch_rows: int = Field(default=1000, ge=1, le=1_000_000)
    """Records in one request to the model server at most. 1000: the fixed cost of a request is then below a tenth."""

    batch_bytes: int = Field(default=1 * MIB, ge=1 * KIB)
    """Bytes of input text in one request at most, so that wide records make smaller batches. 1 MiB: decoded numbers take
    about eight times as much memory, and up to twelve batches are held at once."""

    record_bytes: int = Field(default=16 * MIB, ge=1 * KIB)
    """Bytes of one record at most; a longer one is refused instead of filling the memory. 16 MiB."""

    chunk_bytes: int = Field(default=0, ge=0)
    """Bytes of input in one chunk, the unit of commit and resume. 0: a 128th of the input, from 16 KiB to 4 MiB, so that
    small runs resume finely and large ones do not make too many files."""

    concurrency: int = Field(default=4, ge=1, le=256)
    """Requests under way at the model server at most. 4: enough to keep a small server busy, too few to drown it."""

    request_timeout: float = Field(default=300.0, gt=0)
    """Seconds until one request to the model server is given up. 300: long predictions are what batch is for."""

    handler_timeout: float = Field(default=600.0, gt=0)
    """Seconds of silence after which a data handler is given up. 600: it may compute a query before its first byte."""

    retry_seconds: float = Field(default=60.0, ge=0)
    """Seconds over which transient failures of one request are tried again. 60: a rolling update of a server; longer
    outages are for the next attempt of the run, which waits without holding a Pod."""

    post_limit: int = Field(default=16 * MIB, ge=1 * KIB)
    """Bytes of the one POST that stores predictions through the `krateo` label at most. 16 MiB: handlers pass the body on
    as one command-line argument or one statement, and more is refused somewhere behind them."""

    progress_seconds: float = Field(default=2.0, ge=0)
    """Seconds between two progress lines at least. 2: people look that often, the log stays small."""


def read_settings(environ: Mapping[str, str]) -> Settings:
    """The settings in an environment; raises ContractError that names the variable and what is allowed."""
    values = {"pod_uid": environ.get("pod_uid", "")}
    for field in Settings.model_fields:
        text = environ.get(_PREFIX + field.upper())
        if text not in {None, ""}:
            values[field] = str(text)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        name = _PREFIX + str(wrong["loc"][0]).upper()
        raise ContractError(f"environment variable {name}: {wrong['msg']}; it is {wrong['input']!r}") from error
