"""The label `s3`: Amazon S3 and servers that are compatible with it. Pure."""

from typing import Annotated, Any, Final

from pydantic import Field

from inferrun.fields.secrets import SecretRef
from inferrun.stores.buckets import ObjectStorage
from inferrun.stores.declaration import OUTPUT, Flag, Form, SecretValues

_NAME: Final = Form(
    allowed="must be the name of a bucket: 3 to 63 lower-case letters, digits, - and ., with a letter or digit at both ends",
    matches=r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
)
_REGION: Final = Form(
    allowed="must be the name of a region, such as eu-central-1", matches=r"[A-Za-z0-9._-]{1,64}"
)

_KEYS: Final = {
    "access_key_id": ("accessKeyId", "AWS_ACCESS_KEY_ID"),
    "secret_access_key": ("secretAccessKey", "AWS_SECRET_ACCESS_KEY"),
    "session_token": ("sessionToken", "AWS_SESSION_TOKEN"),
}
"""The keys of a Secret, each under our name and under the name of Amazon's variables, by their
names in obstore."""


ACCESS_KEYS: Final = tuple(key for keys in _KEYS.values() for key in keys)


def access_key(secret: SecretValues, *, whose: str) -> dict[str, str]:
    """Return the access key in a Secret, by the names of obstore. Raises ValueError with `whose` it
    is and what it lacks."""
    found = {
        name: next((secret[key].strip() for key in keys if key in secret), "")
        for name, keys in _KEYS.items()
    }
    if missing := [
        keys[0] for name, keys in _KEYS.items() if not found[name] and name != "session_token"
    ]:
        raise ValueError(f"{whose} has no key {' and no key '.join(missing)}")
    return {name: value for name, value in found.items() if value}


class S3Storage(ObjectStorage):
    """Objects of a bucket, on Amazon S3 or a server that is compatible with it."""

    label = "s3"
    store_class = "S3Store"
    service = "Amazon S3"
    secret_keys = ACCESS_KEYS
    login_variables = (
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    )
    endpoint_variables = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")

    bucket: Annotated[str, Field(max_length=63), _NAME]
    """Name of the bucket."""

    endpoint: Annotated[str, Field(max_length=2048)] = ""
    """URL of the server, such as http://minio.storage:9000. Default: Amazon S3."""

    region: Annotated[str, Field(max_length=64), _REGION] = "us-east-1"
    """Region of the bucket. Default: us-east-1."""

    credentials_ref: SecretRef | None = None
    """Secret with the access key, in the keys accessKeyId, secretAccessKey and, if needed,
    sessionToken. Default: the role of the Pod's service account (serviceAccountName); without one,
    requests are not signed."""

    kms_key_id: Annotated[str, Field(min_length=1, max_length=2048), OUTPUT] = ""
    """Output: key of KMS with which the objects are encrypted. Default: what the bucket has as its
    default."""

    requester_pays: Flag = False
    """Whether the account of the credentials pays for the requests, which some buckets demand.
    Default: false."""

    @property
    def root(self) -> str:
        """The URL of the bucket."""
        return f"s3://{self.bucket}"

    @property
    def url(self) -> str:
        """The URL of the server: `endpoint`, or Amazon's for this bucket."""
        return self.endpoint or f"https://{self.bucket}.s3.{self.region}.amazonaws.com"

    def config(self, endpoint: str) -> dict[str, Any]:  # Any: obstore's
        """The server, the region and who pays."""
        found = {
            "region": self.region,
            "request_payer": self.requester_pays,
            "virtual_hosted_style_request": not endpoint,
        }
        return {**found, "endpoint": endpoint} if endpoint else found

    def credentials(self, secret: SecretValues, *, whose: str) -> dict[str, str]:
        """The access key."""
        return access_key(secret, whose=whose)
