"""The limits that stores, protocols and formats must observe. They bound the runner's memory,
whatever the input's size."""

from typing import Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from inferrun.addresses import parse_targets
from inferrun.contract import Duplicates

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

MAX_CONCURRENCY: Final = 4096
"""Requests to a model server at a time."""


class Limits(BaseModel):
    """Sizes, counts and times for one run; each has a default that suits most models."""

    model_config = ConfigDict(frozen=True)

    batch_rows: int = Field(default=1000, ge=1, le=1_000_000)
    """Maximum number of records in one request to the model server. Default 1000: the fixed cost of
    a request is then less than a tenth of its total cost."""

    request_seconds: float = Field(default=5.0, ge=0)
    """Target duration of one request in seconds: requests to slow models have fewer records. 0:
    always the maximum number. Default 5: far below the timeout, and little is lost if a Pod is
    stopped."""

    batch_bytes: int = Field(default=1 * MIB, ge=1 * KIB)
    """Maximum bytes of input text in one request, so that batches of wide records are smaller.
    Default 1 MiB: decoded numbers take about eight times as much memory."""

    window_bytes: int = Field(default=64 * MIB, ge=1 * MIB)
    """Memory of the decoded batches held between reading and writing, in bytes. Default 64 MiB:
    hundreds of batches of narrow records, so that one batch that waits for a retry does not block
    the others."""

    memory_bytes: int = Field(default=0, ge=0)
    """Memory of the Pod in bytes, of which half may hold requests that are in flight: large ones
    are sent in smaller numbers if necessary. Default 0: the memory limit of the container, if it
    has one."""

    record_bytes: int = Field(default=16 * MIB, ge=1 * KIB)
    """Maximum bytes of one record; longer records are rejected. Default 16 MiB."""

    response_bytes: int = Field(default=64 * MIB, ge=1 * KIB)
    """Maximum bytes of one response of a model server. A request with a longer one is divided; a
    record that has one alone fails. Default 64 MiB: 1000 predictions of 3,000 numbers each."""

    spool_bytes: int = Field(default=8 * GIB, ge=1 * KIB)
    """Maximum bytes that a store may spool to the Pod's disk for its input, and the same for its
    output. Default 8 GiB: an endless response must not fill the disk of the node, which would evict
    other Pods."""

    chunk_bytes: int = Field(default=0, ge=0)
    """Bytes of input in one chunk, the unit of commit and resume. Default 0: a 128th of the input,
    between 16 KiB and 4 MiB, so that small runs resume with little repetition and large runs do not
    create too many files."""

    concurrency: int = Field(default=0, ge=0, le=MAX_CONCURRENCY)
    """Number of concurrent requests to the model server. Default 0: the runner finds it. It rises
    while the throughput rises, and falls when the server rejects requests (429, 503), does not
    respond in time, or has become slower."""

    start_concurrency: int = Field(default=0, ge=0, le=MAX_CONCURRENCY)
    """Number of concurrent requests to begin with. Default 0: 4 if the runner finds the
    concurrency, otherwise the fixed number. With a fixed concurrency, each success allows one more.
    With a model of KServe it is what the replicas accept, if known."""

    connection_seconds: float = Field(default=30.0, gt=0)
    """Seconds after which a connection to the model server is replaced by a new one, at the latest.
    Default 30: a Service chooses the replica for each connection, so replicas that are added get
    their share soon, and a connection costs little."""

    request_timeout: float = Field(default=300.0, gt=0)
    """Timeout of one request to the model server in seconds. Default 300: batch workloads include
    slow predictions."""

    handler_timeout: float = Field(default=600.0, gt=0)
    """Seconds without data from a remote store before the request fails. Default 600: a data
    handler may run a long query before it sends the first byte."""

    retry_seconds: float = Field(default=60.0, ge=0)
    """Seconds during which a failed request is retried if the failure is transient. Default 60:
    covers a rolling update of the server; for longer outages the run's next attempt waits without
    occupying a Pod. Ten times as long after a model server has failed or closed a connection: the
    same Pod must find out whether a record is the reason. Three times as long if it admits nothing
    although it has answered before."""

    post_limit: int = Field(default=16 * MIB, ge=1 * KIB)
    """Maximum bytes of one request body that carries predictions to a remote store. Default 16 MiB:
    handlers pass the body on as one command-line argument or one SQL statement, which have limits
    of their own."""

    save_seconds: float = Field(default=30.0, gt=0)
    """Seconds after which answers are stored although their chunk is not complete, so that they need
    not be paid for again if the Pod dies. Default 30."""

    duplicates: Duplicates = Duplicates.AUTO
    """Whether records that are the same request are sent once. Default Auto: if each record is a
    request of its own, and its answer does not vary."""

    allowed_addresses: str = ""
    """Addresses to which the runner may connect although it otherwise refuses them: a
    comma-separated list of addresses and networks, each with an optional port, such as
    `127.0.0.1:8080`. Default: none. Set by the installation."""

    refused_addresses: str = ""
    """Addresses and host names to which the runner must not connect, in the same form, besides
    loopback, link-local and metadata addresses and the ports of control planes. Default: none. Set
    by the installation: Temporal and the API server."""

    @field_validator("allowed_addresses", "refused_addresses")
    @classmethod
    def _is_a_list(cls, value: str) -> str:
        parse_targets(value)
        return value
