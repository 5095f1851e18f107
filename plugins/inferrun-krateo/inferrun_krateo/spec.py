"""The storage object of the label `krateo`: `api{path, verb, headers[], payload, endpointRef{name, namespace}}`."""

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import Field, field_validator

from inferrun.plugins import Contract, ContractError
from inferrun.plugins.http import header_fault, name_fault, split_header
from inferrun.plugins.storage import MountedRef, StorageSpec

RESERVED = ("job_uid", "pod_uid", "predictions", "chunk", "offset")
"""Keys of a request body that only the runner sets."""


class EndpointRef(MountedRef):
    """The Secret with address and credentials."""

    namespace: str = ""


class SecretKeyRef(MountedRef):
    """The key of a Secret."""

    key: str = Field(min_length=1)


class HeaderSource(StorageSpec):
    """A header whose value is in a Secret."""

    name: str
    secret_key_ref: SecretKeyRef = Field(alias="secretKeyRef")

    @field_validator("name")
    @classmethod
    def _is_allowed(cls, name: str) -> str:
        if fault := name_fault(name):
            raise ValueError(fault)
        return name


class Api(StorageSpec):
    """One API call of the data handler."""

    endpoint_ref: EndpointRef = Field(alias="endpointRef")
    path: str = ""
    verb: str = "POST"
    headers: tuple[str, ...] = ()
    headers_from: tuple[HeaderSource, ...] = Field(default=(), alias="headersFrom")
    payload: str = ""

    @field_validator("verb")
    @classmethod
    def _upper(cls, verb: str) -> str:
        allowed = ("GET", "POST", "PUT", "PATCH", "DELETE")
        if (verb.strip().upper() or "POST") not in allowed:
            raise ValueError(f"allowed: {', '.join(allowed)}")
        return verb.strip().upper() or "POST"

    @field_validator("headers")
    @classmethod
    def _name_and_value(cls, headers: tuple[str, ...]) -> tuple[str, ...]:
        for header in headers:
            if fault := header_fault(header):
                raise ValueError(fault)
        return headers

    @field_validator("payload")
    @classmethod
    def _is_object(cls, payload: str) -> str:
        if payload.strip() and not isinstance(_json(payload), dict):
            raise ValueError("must be a JSON object; its members are merged with the parameters, which take precedence")
        return payload

    def body(self, contract: Contract) -> dict[str, Any]:  # Any: the payload is the user's JSON
        """Return the payload's members, overridden by the run's parameters."""
        given = _json(self.payload) if self.payload.strip() else {}
        return {**given, **contract.parameters}

    @property
    def has_authorization(self) -> bool:
        """Whether the config sets the header Authorization, directly or from a Secret."""
        names = [name for name, _ in self.header_items()] + [source.name for source in self.headers_from]
        return "authorization" in (name.lower() for name in names)

    def header_items(self) -> list[tuple[str, str]]:
        """Return the headers as pairs; the last one of a name wins, as in the Krateo controller."""
        return list({name.lower(): (name, value) for name, value in map(split_header, self.headers)}.values())


class KrateoSpec(StorageSpec):
    """The API call that reads the input or stores the output."""

    api: Api


def reject_reserved(keys: Mapping[str, object], *, where: str) -> None:
    """Raise ContractError if a key would overwrite one that the runner sets."""
    if taken := sorted(set(RESERVED) & set(keys)):
        raise ContractError(f"{where}: {', '.join(taken)} is reserved for the runner; use another name")


def _json(text: str) -> Any:  # Any: the user's JSON
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not valid JSON ({error})") from error
