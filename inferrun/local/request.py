"""What a command asks to be executed on this machine: the manifests, and what stands for the objects
of a cluster.
"""

import binascii
import hashlib
import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from inferrun import wellknown
from inferrun.client.errors import InvalidRequest
from inferrun.client.manifest_files import CheckedManifest, check_manifest, read_manifests
from inferrun.kube.errors import NotConfigured
from inferrun.kube.kubeconfig import selected_kubeconfig
from inferrun.local.pod import Keys, Machine
from inferrun.resources import InferenceConfig, InferenceRun, parse_run
from inferrun.resources.resolution import resolve
from inferrun.resources.run import MUTABLE_AFTER_START
from inferrun.run_defaults import DEFAULT_RUNNER_IMAGE
from inferrun.stores import AzureStorage, FileStorage, GcsStorage, S3Storage
from inferrun.stores.declaration import CREDENTIALS_KEY

Source = str | Path | Mapping[str, Any] | InferenceConfig | InferenceRun  # Any: a manifest
"""A file with manifests, a manifest, or what it describes."""

MAX_FILES: Final = 10_000
"""Files of an input of which a change is noticed before the run is executed."""


_AZURE: Final = {
    "AZURE_STORAGE_ACCOUNT_KEY": "accountKey",
    "AZURE_STORAGE_SAS_TOKEN": "sasToken",
    "AZURE_TENANT_ID": "tenantId",
    "AZURE_CLIENT_ID": "clientId",
    "AZURE_CLIENT_SECRET": "clientSecret",
}
"""The keys of a Secret for Azure, by the variables of its own programs."""

WHEN_READY: Final = (
    "repeat the command when it is ready, or give an address of the model with --model-url"
)
"""The fix for a model in a cluster that cannot be reached now."""


@dataclass(frozen=True)
class Cluster:
    """The cluster that a user has selected as for kubectl; `kubeconfig` None is the one that this
    process is a Pod of."""

    kubeconfig: Path | None
    context: str | None = None


@dataclass(frozen=True)
class LocalRequest:
    """A run, its config, and the machine. `model_url` replaces the address of the model, `cluster`
    is the one that serves it if the config refers to an object of KServe, and `limit` is the number
    of records that are read, 0 for all."""

    run: InferenceRun
    config: InferenceConfig
    machine: Machine
    model_url: str = ""
    limit: int = 0
    cluster: Cluster | None = None

    @property
    def digest(self) -> str:
        """Equal for requests that are the same run: the manifests, apart from what may change while
        a run is in progress, the options, the folders, and the files of an input in a folder."""
        folders = {name: str(folder.resolve()) for name, folder in self.machine.claims.items()}
        spec = self.run.to_manifest()["spec"]
        asked = [
            self.config.to_manifest()["spec"],
            {key: value for key, value in spec.items() if key not in MUTABLE_AFTER_START},
            *(self.model_url, self.limit, folders, list(self._input_files())),
            self.cluster.context if self.cluster is not None else None,
        ]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def with_model(self) -> InferenceConfig:
        """The config with the address that was given for its model."""
        if not self.model_url:
            return self.config
        spec = self.config.spec
        reference = spec.model.service_ref
        name = spec.model.model_name or (reference.name if reference is not None else None)
        here = {"model_url": self.model_url, "service_ref": None, "model_name": name}
        model = spec.model.model_copy(update=here)
        plain = {"kserve": model, "model_url": None}
        return self.config.model_copy(update={"spec": spec.model_copy(update=plain)})

    def _input_files(self) -> Iterator[tuple[str, int, int]]:
        given = resolve(self.run, self.config, is_our_runner=True).input.get(FileStorage.label)
        given = given if isinstance(given, dict) else {}
        folder = self.machine.claims.get(str(given.get("claimName")))
        path = str(given.get("path") or "").strip("/")
        if folder is None or not path:
            return
        place = folder / path
        files = [place] if place.is_file() else place.rglob("*") if place.is_dir() else []
        for file in sorted(islice((one for one in files if one.is_file()), MAX_FILES)):
            found = file.stat()
            yield str(file.relative_to(folder)), found.st_size, found.st_mtime_ns


def request_of(
    sources: Iterable[Source],
    *,
    claims: Mapping[str, Path | str],
    secrets: Mapping[str, Keys],
    model_url: str = "",
    limit: int = 0,
    kubeconfig: Path | None = None,
    context: str | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> LocalRequest:
    """What the sources describe, which must be one run and its config, or a config alone. Raises
    InvalidRequest.

    `kubeconfig` and `context` select a cluster as for kubectl, which is needed only for the object
    of KServe that a config refers to. A bucket for which the config names no Secret is accessed with the user's own identity in a
    cloud, as far as the environment has it.
    """
    checked = [one for source in sources for one in _manifests_of(source)]
    problems = [f"{one.title}: {text}" for one in checked for text in one.problems]
    configs = [one.resource for one in checked if isinstance(one.resource, InferenceConfig)]
    runs = [one.resource for one in checked if isinstance(one.resource, InferenceRun)]
    if problems:
        raise InvalidRequest("; ".join(problems))
    if len(runs) > 1 or not configs or (not runs and len(configs) > 1):
        names = ", ".join(one.title for one in checked) or "none"
        raise InvalidRequest(
            f"there must be one InferenceRun and its InferenceConfig, or one InferenceConfig; found: {names}"
        )
    run = runs[0] if runs else _run_of(configs[0])
    config = next((one for one in configs if one.metadata.name == run.config_name), None)
    if config is None:
        found = ", ".join(one.metadata.name for one in configs)
        raise InvalidRequest(
            f"spec.configRef.name of InferenceRun {run.metadata.name} is {run.config_name!r}, and there is no such "
            f"InferenceConfig; found: {found}"
        )
    documents = [one.document for one in checked if one.resource is None]
    config, own = _with_own_identity(config, environment)
    machine = Machine(
        claims={name: Path(folder) for name, folder in claims.items()},
        secrets={**own, **_keys_in(documents, "Secret"), **secrets},
        config_maps=_keys_in(documents, "ConfigMap"),
    )
    cluster = None
    if config.spec.model.service_ref is not None and not model_url:
        cluster = _selected(config, kubeconfig=kubeconfig, context=context)
    request = LocalRequest(run, config, machine, model_url=model_url, limit=limit, cluster=cluster)
    _check(request)
    return request


def _selected(config: InferenceConfig, *, kubeconfig: Path | None, context: str | None) -> Cluster:
    """The cluster that serves the model. Raises InvalidRequest."""
    try:
        return Cluster(selected_kubeconfig(kubeconfig), context)
    except NotConfigured as error:
        reference = config.spec.model.service_ref
        named = f"{reference.kind} {reference.name}" if reference is not None else "an object"
        raise InvalidRequest(
            f"kserve.serviceRef names {named}, which is in a cluster, and {error}",
            fix="give the address of the model with --model-url, or select the cluster with --kubeconfig or KUBECONFIG",
        ) from error


def _manifests_of(source: Source) -> list[CheckedManifest]:
    if isinstance(source, (str, Path)):
        return read_manifests(Path(source))
    if isinstance(source, (InferenceConfig, InferenceRun)):
        kind = wellknown.CONFIG_KIND if isinstance(source, InferenceConfig) else wellknown.RUN_KIND
        source = {"apiVersion": wellknown.API_VERSION, "kind": kind, **source.to_manifest()}
    return [check_manifest(dict(source), number=1)]


def _run_of(config: InferenceConfig) -> InferenceRun:
    name = config.metadata.name
    return parse_run({"metadata": {"name": name}, "spec": {"configRef": {"name": name}}})


def _keys_in(documents: Iterable[Any], kind: str) -> dict[str, Keys]:  # Any: of a file
    """The values of the Secrets or ConfigMaps among the documents, by name and key."""
    plain, encoded = ("stringData", "data") if kind == "Secret" else ("data", "binaryData")
    found: dict[str, Keys] = {}
    for one in documents:
        if not isinstance(one, dict) or (one.get("apiVersion"), one.get("kind")) != ("v1", kind):
            continue
        name = str((one.get("metadata") or {}).get("name") or "")
        try:
            values = {
                key: b64decode(text, validate=True)
                for key, text in (one.get(encoded) or {}).items()
            }
        except (binascii.Error, TypeError, ValueError) as error:
            raise InvalidRequest(f"{kind} {name}: {encoded} is not base64: {error}") from error
        found[name] = values | {
            key: str(text).encode() for key, text in (one.get(plain) or {}).items()
        }
    return found


def _with_own_identity(
    config: InferenceConfig, environment: Mapping[str, str]
) -> tuple[InferenceConfig, dict[str, Keys]]:
    """The config, with a Secret for each bucket that has none, and these Secrets: what the
    environment says of the user's identity. In a cluster, that of a service account takes its
    place."""
    logins: dict[str, Keys] = {}
    keys = [name for name in S3Storage.secret_keys if environment.get(name)]
    if "AWS_ACCESS_KEY_ID" in keys:
        logins[S3Storage.label] = {name: environment[name].encode() for name in keys}
    found = {
        key: environment[name].encode() for name, key in _AZURE.items() if environment.get(name)
    }
    if {"accountKey", "sasToken", "clientSecret"} & found.keys():
        logins[AzureStorage.label] = found
    if path := environment.get("GOOGLE_APPLICATION_CREDENTIALS"):
        try:
            (key,) = GcsStorage.secret_keys
            logins[GcsStorage.label] = {key: Path(path).read_bytes()}
        except OSError as error:
            raise InvalidRequest(
                f"GOOGLE_APPLICATION_CREDENTIALS: {path} cannot be read: {error.strerror}"
            ) from error
    used: dict[str, Keys] = {}
    storage = {}
    for end in ("input", "output"):
        labels = dict(getattr(config.spec.storage, end) or {})
        for label, login in logins.items():
            given = labels.get(label)
            if isinstance(given, dict) and CREDENTIALS_KEY not in given:
                name = f"{label}-of-the-environment"
                kept = {key: value for key, value in given.items() if key != "workloadIdentity"}
                labels[label] = {**kept, CREDENTIALS_KEY: {"name": name}}
                used[name] = login
        storage[end] = labels or None
    changed = config.spec.storage.model_copy(update=storage)
    spec = config.spec.model_copy(update={"storage": changed})
    return config.model_copy(update={"spec": spec}), used


def _check(request: LocalRequest) -> None:
    """Raise InvalidRequest for what only a cluster has."""
    spec, config = request.run.spec, request.config.spec
    name = request.run.metadata.name
    needs = {
        f'spec.schedule of InferenceRun {name} is "{spec.schedule}"; schedules need a cluster: remove it, and set '
        "spec.interval to the time of one run": spec.schedule is not None,
        f"spec.backfill of InferenceRun {name} needs a cluster: execute its runs one by one, each with its "
        "spec.interval": spec.backfill is not None,
        f"spec.suspend of InferenceRun {name} is true; set it to false": bool(spec.suspend),
        f"spec.image of InferenceConfig {request.config.metadata.name} is {config.image!r}, and images are executed in a "
        "cluster only: remove it to use the built-in runner": config.image
        not in (None, DEFAULT_RUNNER_IMAGE),
    }
    if found := [text for text, is_needed in needs.items() if is_needed]:
        raise InvalidRequest("; ".join(found))
