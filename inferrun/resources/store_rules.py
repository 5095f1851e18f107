"""What is required of the settings of a store besides their types, and of a run that is divided among several Pods. Pure.

The runner checks the same; a config that says so itself needs no Pod to be found invalid.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel

from inferrun.fields.problems import Problem, invalid
from inferrun.resources.config import SIZE
from inferrun.resources.storage import (
    FILE_LABEL,
    OBJECT_LABELS,
    RUN_LABEL,
    CsvOptions,
    DatasetStorage,
    FolderStorage,
    GcsStorage,
    HttpStorage,
    ObjectStorage,
    RunStorage,
    SqlStorage,
)
from inferrun.text import public_url

End = Literal["input", "output"]

SHARED_LABELS: Final[dict[End, tuple[str, ...]]] = {
    "input": (FILE_LABEL, *OBJECT_LABELS, RUN_LABEL),
    "output": (FILE_LABEL, *OBJECT_LABELS),
}
"""The labels whose stores several Pods can share: every Pod reads the same ranges, and each chunk is committed once."""

_INPUT_FIELDS: Final = ("allow_empty", "csv", "missing_columns", "partitions")

_TABLE = re.compile(r"[A-Z_a-z]\w{0,62}(\.[A-Z_a-z]\w{0,62})?", re.ASCII)


def store_problems(storage: BaseModel, *, end: End, path: str) -> Iterator[Problem]:
    """The problems of the settings at that end, in the object at `path`."""
    if isinstance(storage, DatasetStorage):
        other, fields = ("input", _INPUT_FIELDS) if end == "output" else ("output", ("flatten", "layout", "kms_key_id"))
        for field in fields:
            if getattr(storage, field, None) is not None:
                yield invalid(f"{path}.{type(storage).model_fields[field].alias}", "set", f"is for an {other}")
    if isinstance(storage, FolderStorage | HttpStorage) and storage.csv is not None:
        yield from _csv_problems(storage.csv, form=storage.format or "jsonl", path=f"{path}.csv")
    layout = storage.layout if isinstance(storage, FolderStorage) else None
    if layout and layout.part_size is not None and not re.fullmatch(SIZE, str(layout.part_size)):
        yield invalid(f"{path}.layout.partSize", layout.part_size, "must be a size such as 128Mi or 1Gi")
    if layout and layout.partitions == "Input" and layout.single:
        yield invalid(
            f"{path}.layout.single", "true", "one file cannot be in several folders; remove it or layout.partitions"
        )
    match storage:
        case HttpStorage() | RunStorage() if end == "output":
            yield invalid(path, "set", f"the label {path.rpartition('.')[2]} is for the input only")
        case HttpStorage(url=url) if url:
            yield from _url_problems(f"{path}.url", url)
        case HttpStorage(credentials_ref=None):
            allowed = "it is required, unless the Secret of credentialsRef has a key url"
            yield invalid(f"{path}.url", None, allowed)
        case ObjectStorage():
            yield from _object_problems(storage, path=path)
        case RunStorage(name=name, schedule=schedule) if (name is None) == (schedule is None):
            allowed = "set either name, of a run, or schedule, whose run of the same interval is read"
            yield invalid(f"{path}.name", name, allowed)
        case SqlStorage():
            yield from _sql_problems(storage, end=end, path=path)


def _object_problems(storage: ObjectStorage, *, path: str) -> Iterator[Problem]:
    if storage.endpoint is not None:
        yield from _url_problems(f"{path}.endpoint", storage.endpoint)
    if isinstance(storage, GcsStorage) and storage.workload_identity and storage.credentials_ref:
        yield invalid(f"{path}.workloadIdentity", "set", "excludes credentialsRef; remove one of them")


def _csv_problems(options: CsvOptions, *, form: str, path: str) -> Iterator[Problem]:
    if form != "csv":
        yield invalid(path, "set", f"is for the format csv, not {form}; remove it, or set format: csv")
    signs = {"delimiter": options.delimiter, "quote": options.quote, "escape": options.escape}
    for name, value in signs.items():
        if value is not None and not (re.fullmatch("[\t -~]", value) or (not value and name != "delimiter")):
            allowed = 'must be one ASCII character, such as ";"; a tab is "\\t" in double quotes'
            yield invalid(f"{path}.{name}", value, allowed)
    used = [options.delimiter or ",", '"' if options.quote is None else options.quote, options.escape or ""]
    if twice := next((one for one in used if one and used.count(one) > 1), ""):
        yield invalid(path, twice, "delimiter, quote and escape must be different characters")
    names = options.columns or ()
    if twice := next((one for one in names if names.count(one) > 1), ""):
        yield invalid(f"{path}.columns", twice, "each column needs a name of its own")


def _url_problems(field: str, url: str) -> Iterator[Problem]:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_valid = urlsplit(""), False
    if not is_valid or not url.isascii() or any(char <= " " for char in url):
        allowed = "must be an http or https URL, such as https://files.example/rows.jsonl"
        yield invalid(field, public_url(url), allowed)
    elif "@" in parts.netloc:
        yield invalid(field, public_url(url), "must not contain user information; use credentialsRef")


def _sql_problems(storage: SqlStorage, *, end: End, path: str) -> Iterator[Problem]:
    if end == "input":
        if not (storage.query or "").strip().removesuffix(";"):
            allowed = "it is required for an input: the query whose rows are the records"
            yield invalid(f"{path}.query", storage.query, allowed)
        for field, found in (("table", storage.table), ("types", storage.types), ("flatten", storage.flatten)):
            if found is not None:
                yield invalid(f"{path}.{field}", str(found), "is for an output; an input has a query")
        return
    for field, value in (("query", storage.query), ("key", storage.key)):
        if value is not None:
            yield invalid(f"{path}.{field}", str(value), "is for an input; an output has a table")
    if storage.table is None:
        yield invalid(f"{path}.table", None, "it is required for an output: the table of the predictions")
    elif _TABLE.fullmatch(storage.table) is None:
        allowed = "must be a name of letters, digits and underscores, such as predictions or results.predictions"
        yield invalid(f"{path}.table", storage.table, allowed)


def shard_obstacle(
    shards: int,
    *,
    image: str | None,
    input_labels: Iterable[str],
    output_labels: Iterable[str],
    canary_records: int | None,
) -> str:
    """Why a run cannot be divided among that many Pods, with the fix; empty if it can. `image` is that of a custom runner."""
    if shards <= 1:
        return ""
    if image is not None:
        return f"more than 1 requires the built-in runner, but the InferenceConfig names the image {image!r}"
    ends: tuple[tuple[End, Iterable[str]], ...] = (("input", input_labels), ("output", output_labels))
    for side, labels in ends:
        if (other := next((label for label in labels if label not in SHARED_LABELS[side]), None)) is not None:
            allowed = " or ".join(SHARED_LABELS[side])
            return f"more than 1 requires an {side} of the label {allowed}, but spec.storage.{side} has {other}"
    if canary_records:
        return f"more than 1 is not allowed together with spec.canaryRecords ({canary_records}); remove one of them"
    return ""
