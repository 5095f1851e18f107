"""What the stores of objects in buckets and containers have in common. Pure; obstore is imported by
those who open one."""

from typing import Annotated, Any, ClassVar, Final
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from inferrun.fields.secrets import SecretRef
from inferrun.stores.dataset import FolderStorage
from inferrun.stores.declaration import Form, SecretValues

_KEY: Final = Form(
    allowed='must be a key or a prefix such as data/rows.jsonl or data/, without a leading "/", "//", the parts "." and "..", and '
    "control characters",
    never=r"^/|//|(^|/)[.][.]?(/|$)|[\x00-\x1f\x7f]",
)


class ObjectStorage(FolderStorage):
    """Objects in a bucket or a container."""

    place: ClassVar[str] = "bucket"
    """The member that names what contains the objects."""

    store_class: ClassVar[str]
    """The class in `obstore.store` that opens it."""

    service: ClassVar[str]
    """The cloud."""

    secret_keys: ClassVar[tuple[str, ...]]
    """The keys that a Secret may have."""

    login_variables: ClassVar[tuple[str, ...]]
    """Variables of which one says that an environment outside of the cluster has credentials."""

    endpoint_variables: ClassVar[tuple[str, ...]]
    """Variables that name the server there."""

    example: ClassVar[str] = "http://minio.storage:9000"
    """A valid endpoint."""

    excepted: ClassVar[str] = ""
    path_segments: ClassVar[int] = 0
    """How many segments the path of an endpoint may have."""

    path: Annotated[str, Field(min_length=1, max_length=1024), _KEY]
    """Input: the key of an object; a prefix that ends with "/", below which objects with the
    format's extensions are read, also in nested folders such as dt=2026-11-23/; or a pattern with
    *, ? and **. Output: the prefix for results and manifest."""

    endpoint: Annotated[str, Field(max_length=2048)] = ""
    credentials_ref: SecretRef | None = None

    @field_validator("endpoint")
    @classmethod
    def _is_server(cls, endpoint: str) -> str:
        if not endpoint:
            return ""
        try:
            parts = urlsplit(endpoint)
            is_valid = (
                parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
            )
        except ValueError:
            parts, is_valid = urlsplit(""), False
        if not is_valid or not endpoint.isascii() or any(char <= " " for char in endpoint):
            raise ValueError(f"must be the http or https URL of a server, such as {cls.example}")
        if "@" in parts.netloc:
            raise ValueError("must not contain user information; use credentialsRef")
        segments = [one for one in parts.path.split("/") if one]
        if parts.query or parts.fragment or len(segments) > cls.path_segments:
            raise ValueError(
                f"must be a URL without a query and a path{cls.excepted}, such as {cls.example}"
            )
        return endpoint.rstrip("/")

    @property
    def container_name(self) -> str:
        """The name of what contains the objects."""
        return str(getattr(self, self.place))

    @property
    def url(self) -> str:
        """The URL of the server."""
        raise NotImplementedError

    def config(self, endpoint: str) -> dict[str, Any]:  # Any: obstore's
        """What obstore is told about a server, besides credentials; `endpoint` is empty for that of
        the cloud."""
        raise NotImplementedError

    def credentials(self, secret: SecretValues, *, whose: str) -> dict[str, str]:
        """What obstore is told about the keys of a Secret. Raises ValueError with `whose` keys they
        are, and which is missing."""
        raise NotImplementedError
