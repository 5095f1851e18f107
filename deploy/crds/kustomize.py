"""The configuration with which kustomize renames what runs and configs refer to, as it does for its
own kinds. Pure.

Without it, `namePrefix`, `nameSuffix` and the hashes of generated Secrets and ConfigMaps change
names, but not references. The fields come from the models, so that a new one is not forgotten.
"""

from collections.abc import Iterator
from typing import Final

from pydantic import BaseModel

from deploy.crds.schema import Schema
from inferrun import wellknown
from inferrun.fields.resource_model import model_in
from inferrun.resources import InferenceConfigSpec, InferenceRunSpec
from inferrun.stores import STORES, RunStorage

_KSERVE: Final = "serving.kserve.io"
_TARGETS: Final[dict[str, tuple[Schema, ...]]] = {
    "configRef/name": ({"kind": wellknown.CONFIG_KIND, "group": wellknown.GROUP},),
    "credentialsRef/name": ({"kind": "Secret"},),
    "endpointRef/name": ({"kind": "Secret"},),
    "secretKeyRef/name": ({"kind": "Secret"},),
    "configMapKeyRef/name": ({"kind": "ConfigMap"},),
    "configMapRef/name": ({"kind": "ConfigMap"},),
    "claimName": ({"kind": "PersistentVolumeClaim"},),
    "serviceAccountName": ({"kind": "ServiceAccount"},),
    "priorityClassName": ({"kind": "PriorityClass"},),
    "runtimeClassName": ({"kind": "RuntimeClass"},),
    "serviceRef/name": (
        {"kind": "InferenceService", "group": _KSERVE},
        {"kind": "LLMInferenceService", "group": _KSERVE},
    ),
    "retryOf": ({"kind": wellknown.RUN_KIND, "group": wellknown.GROUP},),
    "backfill/schedule": ({"kind": wellknown.RUN_KIND, "group": wellknown.GROUP},),
    f"{RunStorage.label}/name": ({"kind": wellknown.RUN_KIND, "group": wellknown.GROUP},),
}
"""By the end of a field's path, what the field names."""

_OF_PACKAGES: Final = (
    "delta/credentialsRef/name",
    "delta/claimName",
    "iceberg/credentialsRef/name",
)
"""The fields of the stores of inferrun-lake, below `spec.storage.input` and `output`."""


def name_references() -> Schema:
    """The content of the file."""
    fields: dict[str, list[Schema]] = {}
    found = [(wellknown.RUN_KIND, path) for path in sorted(set(_paths(InferenceRunSpec)))]
    found += [
        (wellknown.CONFIG_KIND, path)
        for path in sorted({*_paths(InferenceConfigSpec), *_storage_paths()})
    ]
    for kind, path in found:
        for end, targets in _TARGETS.items():
            if f"/{path}".endswith(f"/{end}"):
                for target in targets:
                    entry = {"path": f"spec/{path}", "kind": kind, "group": wellknown.GROUP}
                    fields.setdefault(str(sorted(target.items())), [target]).append(entry)
    return {
        "nameReference": [{**target, "fieldSpecs": specs} for target, *specs in fields.values()]
    }


def _storage_paths() -> Iterator[str]:
    for end in ("input", "output"):
        yield from (f"storage/{end}/{path}" for path in _OF_PACKAGES)
        for label, model in STORES.items():
            yield from (f"storage/{end}/{label}/{path}" for path in _paths(model))


def _paths(model: type[BaseModel]) -> Iterator[str]:
    """The paths of all fields without fields of their own; kustomize goes through lists by
    itself."""
    for name, field in model.model_fields.items():
        below, alias = model_in(field.annotation), field.alias or name
        yield from (f"{alias}/{path}" for path in _paths(below)) if below is not None else (alias,)
