"""The operator's defaults and limits for runs: the keys of the ConfigMap `inferrun-config`, mounted as a folder.

One key is one file. A bad value never stops a process: the last good one stays, and the problem is told. Pure but for
`read_folder`; who calls it decides how often.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

DEFAULT_RUNNER_IMAGE = "localhost/inferrun/runner:dev"


def _split(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]


class Defaults(BaseModel):
    """What a run gets that neither its config nor its own spec says."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    runner_image: str = Field(default=DEFAULT_RUNNER_IMAGE, min_length=1)
    """The image of our runner; runs whose config names no image use it."""

    backoff_limit: int = Field(default=2, ge=0, le=100)
    """Failed attempts that are tried again: two, so three attempts at most."""

    auto_delete_delay_seconds: int = Field(default=300, ge=0)
    """Seconds from a run's end to its automatic deletion: long enough to look at it."""

    job_ttl_seconds: int = Field(default=86_400, ge=0)
    """Seconds that a finished run keeps its Job and Pod (for its logs): one day."""

    deadline_margin_seconds: int = Field(default=600, ge=1)
    """Seconds past its deadline after which the kubelet ends a Pod by itself, when nobody else could: this lock counts
    from the Pod's acceptance, so a short margin would end Pods that wait for an image or a Secret."""

    max_disruptions: int = Field(default=20, ge=0)
    """Evictions and preemptions of one launch that are borne."""

    allowed_service_accounts: Names = ()
    """Service accounts that a config may name in serviceAccountName; none by default, since an account brings rights."""

    allow_cross_namespace_config: bool = False
    """Whether a run may use a config of another namespace; off, since the namespace is the border of trust."""

    foreign_log_tail: bool = False
    """Whether the last log lines of an image that is not ours may be shown in a status; off, since they may hold data."""

    krateo_post_limit_bytes: int = Field(default=16 * 1024 * 1024, ge=1024)
    """Bytes of predictions that one POST to a `krateo` handler may carry."""


def parse_defaults(values: Mapping[str, str], *, last: Defaults) -> tuple[Defaults, tuple[str, ...]]:
    """The defaults in `values`, and one line for each that is wrong and so keeps its value of `last`."""
    good: dict[str, Any] = {}  # Any: validated below, one key at a time
    problems = []
    by_alias = {field.alias or name: name for name, field in Defaults.model_fields.items()}
    for key, value in values.items():
        if key not in by_alias:
            problems.append(f"{key}: not a setting; known are {', '.join(sorted(by_alias))}")
            continue
        try:
            Defaults.model_validate({key: value.strip()})
            good[key] = value.strip()
        except ValidationError as error:
            problems.append(f"{key}: {value.strip()[:64]!r}: {error.errors()[0]['msg']}")
            good[key] = getattr(last, by_alias[key])
    return Defaults.model_validate(good), tuple(problems)


def read_folder(folder: Path) -> dict[str, str]:
    """The files of a mounted ConfigMap by name; an absent folder is empty."""
    if not folder.is_dir():
        return {}
    files = (path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith("."))
    return {path.name: path.read_text(encoding="utf-8", errors="replace") for path in files}
