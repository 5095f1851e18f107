"""What is measured: the server, the requests, and how long."""

from dataclasses import dataclass, field, replace
from typing import Literal

ROW = "5.1,3.5,1.4,0.2"
FAST = 265_000.0
"""Records per second of the server that shows the limit of the runner."""

GRPC = 500_000.0
"""The same with V2 over gRPC."""

Protocol = Literal["v2", "grpc-v2", "openai"]


@dataclass(frozen=True)
class Scenario:
    """A server, and a number of requests to it."""

    name: str
    requests: int
    rows: int = 1
    protocol: Protocol = "v2"
    connections: int = 4
    """Connections of the load generator: as many as the server has use for."""

    concurrency: int = 0
    """Requests in flight of the runner; 0: it finds the number."""

    server: dict[str, float | int | str] = field(default_factory=dict)
    poisoned: float = 0.0
    """Share of the records that the server rejects."""

    results: Literal["", "openai", "parquet"] = ""
    """Format of the output; default: JSON lines."""

    store: Literal["file", "s3"] = "file"
    limit: float = 180.0
    """Seconds that the programs may take."""

    target: float = 0.9
    """The least share of the rate of the load generator."""

    @property
    def records(self) -> int:
        """Records of the whole run."""
        return self.requests * self.rows


def _fast(share: float) -> Scenario:
    return Scenario(
        f"{share * 100:g} % of 503",
        400,
        rows=1000,
        concurrency=4,
        server={"capacity": FAST, "share": share},
    )


RATES = tuple(_fast(share) for share in (0.0, 0.001, 0.01, 0.1))

COLUMNS = Scenario(
    "gRPC with bytes, Parquet in and out",
    150,
    rows=16_384,
    protocol="grpc-v2",
    results="parquet",
    server={"capacity": GRPC},
)


def _faulty(fault: str, share: float, *, milliseconds: int) -> Scenario:
    workers = 4 if milliseconds < 50 else 16
    seconds = milliseconds / 1000
    extra = 1 + 9 * share if fault == "slow" else 1.0
    length = 4 if milliseconds < 50 else 14
    return Scenario(
        f"{share * 100:g} % {fault}, {milliseconds} ms, {workers} workers",
        int(length * workers / seconds / extra),
        rows=10,
        connections=workers + 2,
        server={
            "capacity": 0,
            "seconds": seconds,
            "workers": workers,
            "share": share,
            "fault": fault,
        },
    )


FAULTS = ("503", "reset", "slow")
BRISK = (
    *(_faulty(fault, 0.1, milliseconds=5) for fault in FAULTS),
    *(
        Scenario(
            f"admits {admitted} requests at a time, 20 ms",
            200 * admitted,
            rows=10,
            connections=admitted,
            server={"capacity": 0, "seconds": 0.02, "workers": admitted, "admitted": admitted},
        )
        for admitted in (4, 16)
    ),
)
"""Measured one after the other, because they take CPU time."""

CALM = (
    *(_faulty(fault, share, milliseconds=100) for fault in FAULTS for share in (0.001, 0.01, 0.1)),
    Scenario(
        "OpenAI, 50 to 150 ms, 16 slots",
        14 * 160,
        protocol="openai",
        results="openai",
        connections=18,
        server={"capacity": 0, "seconds": 0.1, "scatter": 0.5, "workers": 16},
    ),
)
"""Measured at the same time, because they wait most of the time."""

MILD = tuple(_faulty(fault, share, milliseconds=5) for fault in FAULTS for share in (0.001, 0.01))
"""Fewer faults than in BRISK; only in the long measurements."""

SINGLE = Scenario("a request with one record", 5000, concurrency=4, server={"capacity": FAST})
SHORTEST = Scenario("one request", 1, concurrency=4, server={"capacity": FAST})
SMALL = Scenario("a run of 1,000 rows", 1, rows=1000, concurrency=4, server={"capacity": FAST})
"""A run that consists of its start."""

WIDE = tuple(
    Scenario(
        f"{rows:,} rows per request", requests, rows=rows, concurrency=4, server={"capacity": 1e9}
    )
    for rows, requests in ((1024, 400), (16_384, 25))
)
"""CPU time per row, with a server that is faster than the runner."""

UNHURRIED = 50_000.0
"""Records per second of a server that leaves the runner time to send records twice."""

CLEAN = Scenario(
    "no rejected record", 150, rows=1000, concurrency=4, server={"capacity": UNHURRIED, "poison": 1}
)
POISONED = replace(CLEAN, name="0.1 % of the records are rejected", poisoned=0.001)
LIMITED = tuple(
    Scenario(
        f"at most {most} records per request, else {status}",
        2000,
        rows=most,
        server={"capacity": 0, "seconds": 0.01, "workers": 4, "most": most, "refusal": status},
    )
    for most, status in ((1, 400), (8, 400), (10, 413), (10, 500), (32, 422), (64, 500))
)
"""Servers whose limit is not told; `rows` is what `requests.maxBatchRecords` would be."""

OBJECTS = replace(RATES[0], name="from S3 to S3, JSON", requests=8000, store="s3", limit=400)
WHOLE = replace(RATES[0], name="a whole run of 60 s", requests=int(60 * FAST / 1000), limit=400)
TALL = replace(RATES[0], name="20 M rows", requests=20_000, limit=400)
SHORT = replace(RATES[0], name="200 k rows", requests=200)

KILLED_CAPACITY = 20_000.0


def killed(seconds: int) -> Scenario:
    """A run of this length, which is killed from time to time."""
    requests = int(seconds * KILLED_CAPACITY / 1000)
    return Scenario(
        f"a run of {seconds} s",
        requests,
        rows=1000,
        server={"capacity": KILLED_CAPACITY},
        limit=2 * seconds + 120,
    )
