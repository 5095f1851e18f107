"""The label `krateo`: a data handler that is called over HTTP. The store is in the package
inferrun-krateo; it is declared here, because the definition of `InferenceConfig` has its members.
Pure."""

import json
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, Field

from inferrun.fields.scalars import NamespaceName, ResourceName
from inferrun.fields.secrets import SecretKeyReference
from inferrun.http_headers import header_fault, name_fault
from inferrun.nesting import check_depth
from inferrun.stores.declaration import Form, StorageSpec, Store

VERBS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


def _header(header: str) -> str:
    if fault := header_fault(header):
        raise ValueError(fault)
    return header


def _header_name(name: str) -> str:
    if fault := name_fault(name):
        raise ValueError(fault)
    return name


def _reject(constant: str) -> None:
    raise ValueError(constant)


def _payload(payload: str) -> str:
    try:
        check_depth(payload.encode())
        is_object = not payload.strip() or isinstance(
            json.loads(payload, parse_constant=_reject), dict
        )
    except ValueError:
        is_object = False
    if not is_object:
        raise ValueError(
            "must be a JSON object; its members are merged with the parameters, which take precedence"
        )
    return payload


class EndpointReference(StorageSpec):
    """Reference to the Secret that describes an HTTP endpoint."""

    name: ResourceName
    """Name of the Secret. Keys: server-url (required), token, username, password,
    certificate-authority-data, client-certificate-data, client-key-data, proxy-url, insecure."""

    namespace: NamespaceName | None = None
    """Namespace in which the Secret was created. A Pod can only mount Secrets of its own namespace,
    so a Secret of this name must exist in the run's namespace. While it is missing, the run waits
    and its status shows the command that copies it."""


class HeaderSource(StorageSpec):
    """A header of the request whose value is in a Secret."""

    name: Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_header_name)]
    """Name of the header, such as X-Api-Key."""

    secret_key_ref: SecretKeyReference
    """Where the value is. It is mounted in the run's Pod and read by nobody else."""


class KrateoApi(StorageSpec):
    """An HTTP request to a data handler."""

    endpoint_ref: EndpointReference
    """Secret with the address and the credentials of the data handler."""

    path: Annotated[str, Field(max_length=2048)] = ""
    """Path of the request, relative to the endpoint's server-url."""

    verb: Annotated[
        str,
        Field(max_length=16),
        Form(allowed=f"must be one of {', '.join(VERBS)}", matches=f"(?i:{'|'.join(VERBS)})"),
        AfterValidator(str.upper),
    ] = "POST"
    """HTTP method of the request: GET, POST, PUT, PATCH or DELETE. Default: POST."""

    headers: Annotated[
        tuple[
            Annotated[
                str,
                Field(max_length=4096),
                AfterValidator(_header),
                Form(allowed='must have the form "Name: value"', matches=r"[^: \t]+:(?s:.*)"),
            ],
            ...,
        ],
        Field(max_length=64),
    ] = ()
    """Headers of the request, each as "Name: value". Everyone who may read configs can see them:
    use headersFrom for credentials. Host, Content-Length and other headers that frame the request
    cannot be set."""

    headers_from: Annotated[tuple[HeaderSource, ...], Field(max_length=16)] = ()
    """Headers of the request whose values are in Secrets in the namespace of the run. They override
    headers of the same name."""

    payload: Annotated[str, Field(max_length=65536), AfterValidator(_payload)] = ""
    """JSON object whose members are sent together with the run's parameters; a parameter of the
    same name takes precedence. Default: only the parameters are sent."""


class KrateoStorage(Store):
    """A data handler that is called over HTTP with Krateo's protocol."""

    label = "krateo"
    is_in_schema = True
    placeholders: ClassVar = {
        ("api", "path"): "url_path",
        ("api", "headers"): "header",
        ("api", "payload"): "json",
    }

    api: KrateoApi
    """The request that reads the records or stores the predictions."""
