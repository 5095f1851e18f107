"""Manifests of configs and runs in files, checked without a cluster."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from inferrun import wellknown
from inferrun.client.errors import InvalidRequest
from inferrun.client.generated_names import generated_name
from inferrun.fields.problems import parse_problems
from inferrun.names import is_subdomain
from inferrun.resources import (
    InferenceConfig,
    InferenceConfigSpec,
    InferenceRun,
    InferenceRunSpec,
    parse_config,
    parse_run,
)
from inferrun.resources.validation import (
    config_problems,
    config_warnings,
    run_problems,
    type_problems,
    unknown_fields,
)
from inferrun.text import one_line

MAX_FILE_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True)
class CheckedManifest:
    """A document in a file: what it describes, and what is wrong with it."""

    title: str
    """Kind and name, or the document's number."""

    document: Any = None  # Any: whatever the file contains
    """The document itself."""

    resource: InferenceConfig | InferenceRun | None = None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_manifests(path: Path) -> list[CheckedManifest]:
    """The documents of a file; `-` is standard input. Raises InvalidRequest if it cannot be
    read."""
    try:
        raw = (
            sys.stdin.buffer.read(MAX_FILE_BYTES)
            if str(path) == "-"
            else path.read_bytes()[:MAX_FILE_BYTES]
        )
        documents = list(yaml.safe_load_all(raw))
    except OSError as error:
        raise InvalidRequest(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidRequest(f"{path} is not YAML: {one_line(str(error), limit=300)}") from error
    found = []
    for number, document in enumerate(documents, start=1):
        items = (
            document.get("items")
            if isinstance(document, dict) and document.get("kind") == "List"
            else None
        )
        for item in items if isinstance(items, list) else [document]:
            if item is not None:
                found.append(check_manifest(item, number=number))
    if not found:
        raise InvalidRequest(f"{path} is empty")
    return found


def check_manifest(
    document: Any, *, number: int
) -> CheckedManifest:  # Any: whatever the file contains
    """What a document describes, and what is wrong with it."""
    if not isinstance(document, dict):
        return CheckedManifest(f"document {number}", problems=("it is not an object",))
    metadata = document.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, dict) else {}
    stem = str(metadata.get("generateName") or "").rstrip("-.")
    if stem and not metadata.get("name"):
        metadata["name"] = generated_name(stem)
    kind, name = str(document.get("kind")), str(metadata.get("name") or "")
    title = one_line(f"{kind} {stem or name}", limit=300)
    if document.get("apiVersion") != wellknown.API_VERSION or kind not in (
        wellknown.CONFIG_KIND,
        wellknown.RUN_KIND,
    ):
        return CheckedManifest(
            title,
            document,
            warnings=(f"not checked: apiVersion and kind are not of {wellknown.API_VERSION}",),
        )
    problems = []
    if not is_subdomain(name):
        problems.append(
            f'metadata.name is "{one_line(name, limit=100)}"; it must be a DNS-1123 subdomain'
        )
    stored = {**document, "metadata": metadata}
    model = InferenceConfigSpec if kind == wellknown.CONFIG_KIND else InferenceRunSpec
    problems += map(str, unknown_fields(stored, model=model))
    problems += map(str, type_problems(stored, model=model))
    try:
        if kind == wellknown.RUN_KIND:
            run = parse_run(stored)
            problems += map(str, run_problems(run))
            return CheckedManifest(title, document, run, tuple(problems))
        config = parse_config(stored)
    except ValidationError as error:
        found = dict.fromkeys((*problems, *map(str, parse_problems(error))))
        return CheckedManifest(title, document, problems=tuple(found))
    # An unknown key of a storage object is a problem of the config as well.
    problems += (text for one in config_problems(config) if (text := str(one)) not in problems)
    return CheckedManifest(title, document, config, tuple(problems), config_warnings(config))
