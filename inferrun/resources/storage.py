"""The two storage labels that this product knows, as models; every other label is free-form and for custom images.

The storage maps travel into the contract unmodified, so a config keeps them as plain JSON. These models describe what
may stand under a known label: the CRD's schema and the shim's check of unknown keys are both taken from them.
"""

from typing import Annotated, Final

from pydantic import Field

from inferrun.resources.resource_model import ResourceModel
from inferrun.resources.scalars import NamespaceName, ResourceName

HTTP_VERBS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
FILE_LABEL: Final = "file"
KRATEO_LABEL: Final = "krateo"


class EndpointReference(ResourceModel):
    """Names the Secret that describes an HTTP endpoint."""

    name: ResourceName
    """Name of the Secret. Its keys: server-url (required), token, username, password, certificate-authority-data,
    client-certificate-data, client-key-data, proxy-url, insecure."""

    namespace: NamespaceName | None = None
    """Namespace in which the Secret was created. The runner's Pod mounts the Secret of this name from the run's own
    namespace; while it is missing there, the run waits and its status gives the command that copies it."""


class KrateoApi(ResourceModel):
    """One call of a data handler over HTTP."""

    endpoint_ref: EndpointReference
    """The Secret with the address and the credentials of the data handler."""

    path: Annotated[str, Field(max_length=2048)] | None = None
    """Path of the call, below the endpoint's server-url."""

    verb: Annotated[str, Field(max_length=16)] | None = None
    """HTTP method of the call: GET, POST, PUT, PATCH or DELETE. Default: POST."""

    headers: Annotated[tuple[Annotated[str, Field(max_length=4096)], ...], Field(max_length=64)] | None = None
    """Headers of the call, each as "Name: value"."""

    payload: Annotated[str, Field(max_length=65536)] | None = None
    """Text of a JSON object whose members are sent below the run's parameters, which win. Default: the parameters alone."""


class KrateoStorage(ResourceModel):
    """A data handler that speaks Krateo's protocol over HTTP."""

    api: KrateoApi
    """The call that reads the records or stores the predictions."""


class FileStorage(ResourceModel):
    """Files on a PersistentVolumeClaim of the run's namespace."""

    claim_name: ResourceName
    """Name of the PersistentVolumeClaim, in the namespace of the run. Input is mounted read-only; input and output may
    name the same claim."""

    path: Annotated[str, Field(min_length=1, max_length=1024)]
    """Path below the root of the claim: relative, without "..". Of the input: a file of records, or a folder
    of *.jsonl files; of the output: the folder for results and manifest."""

    format: Annotated[str, Field(min_length=1, max_length=32)] | None = None
    """Format of the records. Default: jsonl, one JSON value a line."""


KNOWN_LABELS: Final[dict[str, type[ResourceModel]]] = {FILE_LABEL: FileStorage, KRATEO_LABEL: KrateoStorage}
"""Every label that the product knows, with its model."""
