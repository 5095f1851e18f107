"""Models of the storage labels that the built-in runner supports; any other label is free-form, for custom images.

A config keeps its storage as plain JSON, because it is passed unmodified in the contract. These models describe the allowed
keys of the supported labels: the CRD's schema and the check for unknown keys are derived from them.
"""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from inferrun.fields.resource_model import ResourceModel
from inferrun.fields.scalars import NamespaceName, ResourceName

HTTP_VERBS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
FILE_LABEL: Final = "file"
KRATEO_LABEL: Final = "krateo"
S3_LABEL: Final = "s3"
GCS_LABEL: Final = "gcs"
AZURE_LABEL: Final = "azure"
HTTP_LABEL: Final = "http"
SQL_LABEL: Final = "sql"
RUN_LABEL: Final = "run"

CLAIM_KEY: Final = "claimName"
"""In a storage object: the PersistentVolumeClaim that is mounted for it."""

CREDENTIALS_KEY: Final = "credentialsRef"
SECRET_KEYS: Final = ((CREDENTIALS_KEY,), ("api", "endpointRef"))
"""Where a storage object may name the Secret that is mounted for it. A plug-in declares in this way what it needs."""


class EndpointReference(ResourceModel):
    """Reference to the Secret that describes an HTTP endpoint."""

    name: ResourceName
    """Name of the Secret. Keys: server-url (required), token, username, password, certificate-authority-data,
    client-certificate-data, client-key-data, proxy-url, insecure."""

    namespace: NamespaceName | None = None
    """Namespace in which the Secret was created. A Pod can only mount Secrets of its own namespace, so a Secret of this name
    must exist in the run's namespace. While it is missing, the run waits and its status shows the command that copies it."""


class SecretKeyReference(ResourceModel):
    """Reference to a key of a Secret in the namespace of the run."""

    name: ResourceName
    """Name of the Secret."""

    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
    """Key whose value is used."""


class HeaderSource(ResourceModel):
    """A header of the request whose value is in a Secret."""

    name: Annotated[str, Field(min_length=1, max_length=256)]
    """Name of the header, such as X-Api-Key."""

    secret_key_ref: SecretKeyReference
    """Where the value is. It is mounted in the run's Pod and read by nobody else."""


class KrateoApi(ResourceModel):
    """An HTTP request to a data handler."""

    endpoint_ref: EndpointReference
    """Secret with the address and the credentials of the data handler."""

    path: Annotated[str, Field(max_length=2048)] | None = None
    """Path of the request, relative to the endpoint's server-url."""

    verb: Annotated[str, Field(max_length=16)] | None = None
    """HTTP method of the request: GET, POST, PUT, PATCH or DELETE. Default: POST."""

    headers: Annotated[tuple[Annotated[str, Field(max_length=4096)], ...], Field(max_length=64)] | None = None
    """Headers of the request, each as "Name: value". Everyone who may read configs can see them: use headersFrom for
    credentials. Host, Content-Length and other headers that frame the request cannot be set."""

    headers_from: Annotated[tuple[HeaderSource, ...], Field(max_length=16)] | None = None
    """Headers of the request whose values are in Secrets in the namespace of the run. They override headers of the same name."""

    payload: Annotated[str, Field(max_length=65536)] | None = None
    """JSON object whose members are sent together with the run's parameters; a parameter of the same name takes precedence.
    Default: only the parameters are sent."""


class KrateoStorage(ResourceModel):
    """A data handler that is called over HTTP with Krateo's protocol."""

    api: KrateoApi
    """The request that reads the records or stores the predictions."""


class OutputLayout(ResourceModel):
    """How the results of an output are divided into files."""

    part_size: int | Annotated[str, Field(max_length=16)] | None = None
    """Bytes that a file with the results of several chunks has at most, such as 1Gi. Default: 128Mi."""

    single: bool | None = None
    """Whether there is one file with all results, whatever its size. Default: false."""

    partitions: Literal["None", "Input"] | None = None
    """Input: the files are in nested folders such as dt=2026-11-23, those of the input's files. None (the default): they are in one
    folder."""

    compression: Literal["zstd", "snappy", "gzip", "lz4", "none"] | None = None
    """Compression of the columns in a table format. Default: zstd for parquet, none for arrow."""


ColumnTypes = Annotated[
    dict[Annotated[str, Field(max_length=256)], Annotated[str, Field(min_length=1, max_length=1024)]],
    Field(max_length=256),
]
"""Names of types, by the names of columns."""


CsvEncoding = Literal[
    "utf-8", "iso-8859-1", "iso-8859-2", "iso-8859-15", "windows-1250", "windows-1251", "windows-1252", "windows-1253",
    "windows-1254", "koi8-r", "shift_jis", "gb18030", "big5", "euc-jp", "euc-kr",
]  # fmt: skip


class CsvOptions(ResourceModel):
    """How the CSV files of an input are written."""

    delimiter: Annotated[str, Field(max_length=16)] | None = None
    """One ASCII character between values, such as ";", or "\\t" for a tab. Default: ","."""

    quote: Annotated[str, Field(max_length=16)] | None = None
    """One ASCII character around values that contain delimiters, quotes or line breaks. Empty: values are never quoted. Default:
    the double quote."""

    escape: Annotated[str, Field(max_length=16)] | None = None
    """One ASCII character, such as a backslash, before a quote or itself within quotes. If values are never quoted, also before a
    delimiter or a line break, and in \\n, \\t, \\x41 and the like. Default: a quote within quotes is doubled."""

    escape_unquoted: bool | None = None
    """Whether escape has that wider meaning although values may be quoted, as in files of MySQL and Python. Default: false."""

    skip_initial_space: bool | None = None
    """Whether blanks after a delimiter are ignored. Default: false."""

    encoding: CsvEncoding | None = None
    """Encoding of the text. Default: utf-8."""

    header: bool | None = None
    """Whether the first record of each file names the columns. Default: true, unless columns is set. Without names, the columns are
    column_1, column_2 and so on."""

    columns: (
        Annotated[tuple[Annotated[str, Field(min_length=1, max_length=256)], ...], Field(max_length=1024)] | None
    ) = None
    """Names of the columns, in order. With header: true, they replace those in the files."""

    null_values: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=64)] | None = None
    """What stands for null, such as NA or \\N, where it is not quoted. Default: nothing between two delimiters. An empty value is
    always a missing number."""


class DatasetStorage(ResourceModel):
    """What an input says about its files and their columns."""

    csv: CsvOptions | None = None
    """Input of the format csv: how the files are written."""

    types: ColumnTypes | None = None
    """Types of columns by their names, in a table format, such as prediction: double. Input: whatever the files have; a value that
    does not fit is an error of its record. Output: default: those of the input and of the model."""

    missing_columns: Literal["Fail", "Null"] | None = None
    """Input: what happens if a file, or a record of JSON lines, lacks a column that is used: the run or the record fails (Fail, the
    default), or the column is null there (Null)."""

    allow_empty: bool | None = None
    """Input: whether a run whose input has no records succeeds. Default: false."""


class FolderStorage(DatasetStorage):
    """Folders of files, as an input or an output."""

    partitions: ColumnTypes | None = None
    """Input: types of the columns in the names of nested folders, such as dt=2026-11-23, by their names. Default: integers and
    dates where all values are such, otherwise strings."""

    format: Annotated[str, Field(min_length=1, max_length=32)] | None = None
    """Format of the records: jsonl (one JSON value per line, the default), csv, parquet, arrow, openai (files of OpenAI's Batch
    API), json (input only: one array), orc (input only) or files (input only: each file is a record)."""

    flatten: bool | None = None
    """Output in a table format: whether each output of the model is a column of its own, instead of a member of the column
    prediction."""

    layout: OutputLayout | None = None
    """Output: how the results are divided into files, when the run ends."""


class FileStorage(FolderStorage):
    """Files on a PersistentVolumeClaim in the namespace of the run."""

    claim_name: ResourceName
    """Name of the PersistentVolumeClaim in the namespace of the run. The input is mounted read-only. Input and output may use
    the same claim."""

    path: Annotated[str, Field(min_length=1, max_length=1024)]
    """Path relative to the root of the claim, without "..". Input: a file of records; a directory, whose files with the format's
    extensions are read, also in nested directories such as dt=2026-11-23; or a pattern with *, ? and **. Output: the directory for
    results and manifest."""


class SecretRef(ResourceModel):
    """Reference to a Secret in the namespace of the run."""

    name: ResourceName
    """Name of the Secret."""


class ObjectStorage(FolderStorage):
    """Objects in a bucket or a container."""

    path: Annotated[str, Field(min_length=1, max_length=1024)]
    """Input: the key of an object; a prefix that ends with "/", below which objects with the format's extensions are read, also in
    nested folders such as dt=2026-11-23/; or a pattern with *, ? and **. Output: the prefix for results and manifest."""

    endpoint: Annotated[str, Field(max_length=2048)] | None = None
    credentials_ref: SecretRef | None = None

    @property
    def root(self) -> str:
        """The URL of the bucket or container."""
        raise NotImplementedError


class S3Storage(ObjectStorage):
    """Objects of a bucket, on Amazon S3 or a server that is compatible with it."""

    bucket: Annotated[str, Field(min_length=3, max_length=63)]
    """Name of the bucket."""

    endpoint: Annotated[str, Field(max_length=2048)] | None = None
    """URL of the server, such as http://minio.storage:9000. Default: Amazon S3."""

    region: Annotated[str, Field(max_length=64)] | None = None
    """Region of the bucket. Default: us-east-1."""

    credentials_ref: SecretRef | None = None
    """Secret with the access key, in the keys accessKeyId, secretAccessKey and, if needed, sessionToken. Default: the role of
    the Pod's service account (serviceAccountName); without one, requests are not signed."""

    kms_key_id: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    """Output: key of KMS with which the objects are encrypted. Default: what the bucket has as its default."""

    requester_pays: bool | None = None
    """Whether the account of the credentials pays for the requests, which some buckets demand. Default: false."""

    @property
    def root(self) -> str:
        """The URL of the bucket."""
        return f"s3://{self.bucket}"


class WorkloadIdentity(ResourceModel):
    """How Google knows the Pod's service account: by workload identity federation."""

    audience: Annotated[str, Field(max_length=512, pattern=r"^//iam\.googleapis\.com/\S+$")]
    """The provider that trusts the cluster, such as
    //iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/POOL/providers/NAME."""

    service_account: Annotated[str, Field(max_length=256)] | None = None
    """The service account of Google to impersonate. Default: the Pod's own identity in the pool has the permissions."""


class GcsStorage(ObjectStorage):
    """Objects of a bucket of Google Cloud Storage."""

    bucket: Annotated[str, Field(min_length=3, max_length=222)]
    """Name of the bucket."""

    endpoint: Annotated[str, Field(max_length=2048)] | None = None
    """URL of the server. Default: https://storage.googleapis.com."""

    credentials_ref: SecretRef | None = None
    """Secret with the key file of a service account of Google in the key credentials.json. Default: workloadIdentity; without
    one, requests have no credentials."""

    workload_identity: WorkloadIdentity | None = None
    """Credentials for the token of the Pod's service account (serviceAccountName), instead of credentialsRef."""

    @property
    def root(self) -> str:
        """The URL of the bucket."""
        return f"gs://{self.bucket}"


class AzureStorage(ObjectStorage):
    """Objects of a container of Azure Blob Storage."""

    account: Annotated[str, Field(min_length=3, max_length=24)]
    """Name of the storage account."""

    container: Annotated[str, Field(min_length=3, max_length=63)]
    """Name of the container."""

    endpoint: Annotated[str, Field(max_length=2048)] | None = None
    """URL of the account, for other clouds and emulators. Default: https://<account>.blob.core.windows.net."""

    credentials_ref: SecretRef | None = None
    """Secret with accountKey, with sasToken, or with tenantId, clientId and clientSecret. Default: the identity of the Pod's
    service account (serviceAccountName); without one, requests have no credentials."""

    @property
    def root(self) -> str:
        """The URL of the container."""
        return f"abfss://{self.container}@{self.account}.dfs.core.windows.net"


class HttpStorage(DatasetStorage):
    """A file on a web server; for the input only."""

    url: Annotated[str, Field(max_length=4096)] | None = None
    """URL of the file. A URL that contains a credential, such as a signed one, belongs in the key url of the Secret of
    credentialsRef."""

    credentials_ref: SecretRef | None = None
    """Secret with the keys token, or username and password, and, if needed, ca.crt and url. Default: requests have no
    credentials."""

    format: Annotated[str, Field(min_length=1, max_length=32)] | None = None
    """Format of the records: jsonl (one JSON value per line, the default), json (one array), csv, parquet, arrow, orc or
    openai."""


_Column: TypeAlias = Annotated[str, Field(max_length=63)]


class SqlStorage(ResourceModel):
    """A PostgreSQL database."""

    credentials_ref: SecretRef
    """Secret with the keys host, dbname, username and password and, if needed, port, sslmode and ca.crt."""

    query: Annotated[str, Field(max_length=65536)] | None = None
    """Input: the query whose rows are the records. Its columns feed the model, except the key and an optional column custom_id."""

    key: _Column | Annotated[tuple[_Column, ...], Field(min_length=1, max_length=8)] | None = None
    """Input: the column of the query that identifies a row, or a list of columns that do so together, by which the rows are read in
    ranges. Their types have an order, and their values are never null. Default: each Pod executes the query once and spools its
    rows."""

    table: Annotated[str, Field(max_length=127)] | None = None
    """Output: the table, which the run creates if it does not exist, as schema.table or table."""

    types: ColumnTypes | None = None
    """Output: types of columns by their names, such as prediction: double. Default: those of the input and of the model."""

    flatten: bool | None = None
    """Output: whether each output of the model is a column of its own, instead of a member of the column prediction."""


class RunStorage(ResourceModel):
    """The committed output of another run in the namespace of the run; for the input only."""

    name: ResourceName | None = None
    """Name of that run. This run waits until it has succeeded."""

    schedule: ResourceName | None = None
    """Name of a schedule, instead of name: the output of its run for the same scheduled time, which is the end of this run's
    interval."""


OBJECT_STORES: Final[dict[str, type[ObjectStorage]]] = {
    S3_LABEL: S3Storage,
    GCS_LABEL: GcsStorage,
    AZURE_LABEL: AzureStorage,
}
"""The labels of objects in buckets and containers."""

OBJECT_LABELS: Final = tuple(OBJECT_STORES)

S3_KEYS: Final = {
    "access_key_id": ("accessKeyId", "AWS_ACCESS_KEY_ID"),
    "secret_access_key": ("secretAccessKey", "AWS_SECRET_ACCESS_KEY"),
    "session_token": ("sessionToken", "AWS_SESSION_TOKEN"),
}
"""The keys of a Secret for s3, each under our name and under the name of Amazon's variables, by their names in obstore."""

GCS_KEY: Final = "credentials.json"
"""The key of a Secret for gcs."""

NO_GCS_CREDENTIALS: Final = (
    '{"disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": "", "gcs_base_url": ""}'
)
"""A key file with which obstore sends requests without credentials. With `skip_signature` alone, it would ask the metadata service
of the node for some."""

AZURE_KEYS: Final = {
    "access_key": {"accountKey": "account_key"},
    "sas_token": {"sasToken": "sas_key"},
    "client_secret": {"tenantId": "tenant_id", "clientId": "client_id", "clientSecret": "client_secret"},
}
"""The keys of a Secret for azure with their names in obstore, by obstore's types of credentials."""

SCHEMA_LABELS: Final[dict[str, type[ResourceModel]]] = {FILE_LABEL: FileStorage, KRATEO_LABEL: KrateoStorage}
"""The labels whose settings have a schema in the CRD, whatever the image."""

KNOWN_LABELS: Final[dict[str, type[ResourceModel]]] = {
    **SCHEMA_LABELS,
    **OBJECT_STORES,
    HTTP_LABEL: HttpStorage,
    SQL_LABEL: SqlStorage,
    RUN_LABEL: RunStorage,
}
"""The labels of the built-in runner. Custom images may have used a label that is not in SCHEMA_LABELS in their own way before the
built-in runner supported it, so it is checked for the built-in runner only."""
