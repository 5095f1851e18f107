"""What a run's Pods mount: claims, Secrets, tokens, certificates. Pure."""

from collections.abc import Iterable
from typing import Any, Literal, Self

from pydantic import Field

from inferrun.kube.objects import Object
from inferrun.launches.verdict import Frozen
from inferrun.resources import InferenceConfig, connection
from inferrun.resources.config import CA_BUNDLE_KEY
from inferrun.stores import SCHEMA_STORES, AzureStorage, GcsStorage, KrateoStorage
from inferrun.stores.declaration import CLAIM_KEY, CREDENTIALS_KEY, SECRET_KEYS, End

ENDPOINTS_PATH = "/etc/inferrun/endpoints"
DATA_PATH = "/data"
MODEL_CA_VOLUME = "model-ca"
MODEL_CA_KEYS = ("ca.crt", "tls.crt")
"""The keys of a model's own certificate, which is its own authority: KServe before 0.18 wrote no
ca.crt. Keys that are missing are not mounted, the private one never."""

CA_BUNDLE_VOLUME = "ca-bundle"
CA_BUNDLE_PATH = "/etc/inferrun/ca-bundle"
CA_BUNDLE_FILE = "ca.crt"
MODEL_VOLUMES = ("endpoint-model", MODEL_CA_VOLUME, CA_BUNDLE_VOLUME)
"""What a program needs that speaks with the model, and with nothing else."""

TOKEN_SECONDS = 3600
"""Lifetime of a service account's token. The kubelet replaces it after 80 % of that time."""

AZURE_IDENTITY_LABEL = "azure.workload.identity/use"
"""The label of Pods to which Azure's webhook adds the token of their service account for Azure."""

SecretEnd = Literal["input", "output", "model"]
FreeForm = dict[str, Any]  # Any: free-form storage
Volume = tuple[Object, list[Object]]
"""A volume of a Pod, and the mounts of it in the container."""

_Storage = tuple[End, str, FreeForm]
"""The end, the label and its object."""


class EndpointSecret(Frozen):
    """The Secret of an input, an output or the model server, and the namespace that its reference
    names."""

    end: SecretEnd
    secret: str
    named_namespace: str = ""


class HeaderSecret(Frozen):
    """The key of a Secret that holds the value of a header; `index` is its place in the list of the
    end's headers."""

    end: SecretEnd
    index: int
    secret: str
    key: str


class MountedClaim(Frozen):
    """The PersistentVolumeClaim of an input or output."""

    end: End
    name: str


class MountedKey(Frozen):
    """A key of a ConfigMap that is mounted: with certificates of authorities, or with a system
    message."""

    config_map: str
    key: str


class PodMounts(Frozen):
    """What a run's Pods mount besides their contract."""

    endpoints: tuple[EndpointSecret, ...] = ()
    header_secrets: tuple[HeaderSecret, ...] = ()
    claims: tuple[MountedClaim, ...] = ()
    token_audiences: dict[SecretEnd, str] = Field(default_factory=dict)
    """Audiences of the tokens of the service account that are mounted for an end."""

    has_azure_identity: bool = False
    """Whether Azure's webhook is to give the Pod the identity of its service account."""

    ca_bundle: MountedKey | None = None
    system_prompt: MountedKey | None = None

    def for_output(self) -> Self:
        """With only what the output needs: what only the input and the model need may be
        missing."""
        kept: dict[str, object] = {
            name: tuple(one for one in getattr(self, name) if one.end == "output")
            for name in ("endpoints", "header_secrets", "claims")
        }
        audiences = {
            end: audience for end, audience in self.token_audiences.items() if end == "output"
        }
        return self.model_copy(update={**kept, "token_audiences": audiences, "system_prompt": None})


def mounts_of(
    config: InferenceConfig, *, input_storage: FreeForm | None, is_our_runner: bool
) -> PodMounts:
    """The mounts of a run whose input is `input_storage`."""
    spec, model = config.spec, config.spec.model
    bundle, source = spec.ca_bundle, spec.request.system_from if spec.request else None
    system = source.config_map_key_ref if source else None
    given: tuple[tuple[End, FreeForm | None], ...] = (
        ("input", input_storage),
        ("output", spec.storage.output),
    )
    storage = [
        (end, label, item)
        for end, labels in given
        for label, item in (labels or {}).items()
        if isinstance(item, dict)
    ]
    # Ours to provide are the mounts of our labels, and those of plug-ins in the built-in runner.
    ends = [(end, item) for end, label, item in storage if is_our_runner or label in SCHEMA_STORES]
    with_identity = storage if is_our_runner and spec.service_account_name else []
    endpoints = [
        endpoint for end, item in ends if (endpoint := _endpoint_of(end, item)) is not None
    ]
    if model.credentials_ref is not None:
        endpoints.append(EndpointSecret(end="model", secret=model.credentials_ref.name))
    return PodMounts(
        endpoints=tuple(endpoints),
        header_secrets=_header_secrets_of(storage, model.headers or ()),
        claims=tuple(
            MountedClaim(end=end, name=str(item[CLAIM_KEY]))
            for end, item in ends
            if item.get(CLAIM_KEY)
        ),
        token_audiences=_token_audiences(with_identity, model.token_audience),
        has_azure_identity=any(
            label == AzureStorage.label and CREDENTIALS_KEY not in item
            for _, label, item in with_identity
        ),
        ca_bundle=MountedKey(
            config_map=bundle.config_map_ref.name, key=bundle.config_map_ref.key or CA_BUNDLE_KEY
        )
        if bundle is not None
        else None,
        system_prompt=MountedKey(config_map=system.name, key=system.key)
        if system is not None
        else None,
    )


def _endpoint_of(end: End, settings: FreeForm) -> EndpointSecret | None:
    for keys in SECRET_KEYS:
        reference: Any = settings  # Any: free-form storage
        for key in keys:
            reference = reference.get(key) if isinstance(reference, dict) else None
        if isinstance(reference, dict) and isinstance(reference.get("name"), str):
            namespace = reference.get("namespace")
            named = namespace if isinstance(namespace, str) else ""
            return EndpointSecret(end=end, secret=reference["name"], named_namespace=named)
    return None


def _token_audiences(
    storage: Iterable[_Storage], model_audience: str | None
) -> dict[SecretEnd, str]:
    found: dict[SecretEnd, str] = {}
    for end, label, settings in storage:
        identity = settings.get("workloadIdentity") if label == GcsStorage.label else None
        if isinstance(identity, dict):
            found[end] = identity["audience"]
    return found | ({"model": model_audience} if model_audience else {})


def _header_secrets_of(
    storage: Iterable[_Storage], headers: Iterable[connection.ModelHeader]
) -> tuple[HeaderSecret, ...]:
    found = [
        HeaderSecret(end="model", index=index, secret=reference.name, key=reference.key)
        for index, header in enumerate(headers)
        if (reference := header.value_from.secret_key_ref if header.value_from else None)
        is not None
    ]
    for end, label, settings in storage:
        call = settings.get("api") if label == KrateoStorage.label else None
        sources = call.get("headersFrom") if isinstance(call, dict) else None
        for index, source in enumerate(sources if isinstance(sources, list) else ()):
            reference = source.get("secretKeyRef") if isinstance(source, dict) else None
            if isinstance(reference, dict) and reference.get("name") and reference.get("key"):
                secret, key = str(reference["name"]), str(reference["key"])
                found.append(HeaderSecret(end=end, index=index, secret=secret, key=key))
    return tuple(found)


def pod_labels(mounts: PodMounts) -> dict[str, str]:
    """Labels of the Pod that make others add mounts to it."""
    return {AZURE_IDENTITY_LABEL: "true"} if mounts.has_azure_identity else {}


def trust_variables(mounts: PodMounts) -> dict[str, str]:
    """The authorities that our programs trust, by environment variable."""
    return {"INFERRUN_CA_BUNDLE": f"{CA_BUNDLE_PATH}/{CA_BUNDLE_FILE}"} if mounts.ca_bundle else {}


def volumes_of(mounts: PodMounts, *, ca_secret: str, is_our_runner: bool) -> list[Volume]:
    """The volumes; `ca_secret` is the Secret with the certificate of the model's server, empty for
    none.

    A custom image looks up its Secret itself, so a missing Secret must not keep the Pod from
    starting.
    """
    optional, volumes = not is_our_runner, list[Volume]()
    secrets = {one.end: one.secret for one in mounts.endpoints}
    for side in dict.fromkeys((*secrets, *mounts.token_audiences)):
        source: Object = {
            "secret": {"secretName": secrets.get(side), "optional": optional, "defaultMode": 0o444}
        }
        if audience := mounts.token_audiences.get(side):
            token = {"audience": audience, "expirationSeconds": TOKEN_SECONDS, "path": "token"}
            beside = (
                [{"secret": {"name": secrets[side], "optional": optional}}]
                if side in secrets
                else []
            )
            source = _projected([*beside, {"serviceAccountToken": token}])
        volumes.append(mounted(f"endpoint-{side}", source, _read_only(side)))
    headers: dict[str, list[Object]] = {}
    # each becomes a file that is named after its place in the list
    for header in mounts.header_secrets:
        item = {"key": header.key, "path": str(header.index)}
        secret = {"name": header.secret, "items": [item], "optional": optional}
        headers.setdefault(header.end, []).append({"secret": secret})
    for end, sources in headers.items():
        volumes.append(mounted(f"headers-{end}", _projected(sources), _read_only(f"{end}-headers")))
    if ca_secret:
        items = [{"key": key, "path": key} for key in MODEL_CA_KEYS]
        secret = {"secretName": ca_secret, "optional": True, "items": items, "defaultMode": 0o444}
        volumes.append(mounted(MODEL_CA_VOLUME, {"secret": secret}, _read_only(MODEL_CA_VOLUME)))
    if mounts.ca_bundle is not None:
        place = {"mountPath": CA_BUNDLE_PATH, "readOnly": True}
        volumes.append(
            mounted(CA_BUNDLE_VOLUME, _file(mounts.ca_bundle, path=CA_BUNDLE_FILE), place)
        )
    if mounts.system_prompt is not None:
        volumes.append(
            mounted(
                "system-prompt", _file(mounts.system_prompt, path="system"), _read_only("request")
            )
        )
    # input and output may use the same one
    for name in dict.fromkeys(claim.name for claim in mounts.claims):
        ends = [claim.end for claim in mounts.claims if claim.name == name]
        places = [{"mountPath": f"{DATA_PATH}/{end}", "readOnly": end == "input"} for end in ends]
        volumes.append(
            mounted(f"data-{ends[0]}", {"persistentVolumeClaim": {"claimName": name}}, *places)
        )
    return volumes


def mounted(name: str, source: Object, *places: Object) -> Volume:
    """A volume with this source, mounted at these places."""
    return {"name": name, **source}, [{"name": name, **place} for place in places]


def _read_only(folder: str) -> Object:
    return {"mountPath": f"{ENDPOINTS_PATH}/{folder}", "readOnly": True}


def _file(key: MountedKey, *, path: str) -> Object:
    return {"configMap": {"name": key.config_map, "items": [{"key": key.key, "path": path}]}}


def _projected(sources: list[Object]) -> Object:
    return {"projected": {"sources": sources, "defaultMode": 0o444}}
