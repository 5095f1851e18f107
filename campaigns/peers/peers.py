"""The clients that are compared: which work each does, and how it is called.

The scripts of `clients/` take the same arguments. A client that takes too long for all records of a
row gets fewer; its figures are per record.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from campaigns.peers.records import COLUMNS, INSTRUCTION, SYSTEM
from campaigns.peers.works import Form, Work

HERE: Final = Path(__file__).parent
CHECKOUT: Final = HERE.parents[1]
PRODUCT: Final = "inferrun"
FLOOR: Final = "floor"
GATEWAY: Final = "INFERRUN_GATEWAY"
"""The environment variable with the program that runs llm-d's batch gateway."""


@dataclass(frozen=True)
class Task:
    """What a client is to do once."""

    work: Work
    source: Path
    folder: Path
    """An empty folder; results are written below it."""

    port: int
    python: Path
    """Of the client's environment."""

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def target(self) -> Path:
        """The folder of the results, which does not exist yet."""
        return self.folder / "results"


@dataclass(frozen=True)
class Call:
    """How a client is started."""

    command: list[str]
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Client:
    """A client, and what it can do."""

    name: str
    what: str
    """What it does, for the page."""

    call: Callable[[Task], Call]
    most: Mapping[Form, int]
    """The work that it does, and the most records that it gets."""

    variants: Mapping[Form, str] = field(default_factory=dict)
    """Which variant of an input it reads; default: the input itself."""

    package: str = ""
    """The package whose version is shown; its environment has the client's name. Empty: it runs in
    the environment of the runner."""

    needs: str = ""
    """What the user has to name, because it cannot be installed."""

    results: str = "."
    """The folder of its results, below that which it is told to write to."""

    keys: frozenset[str] = frozenset()
    """Only these rows; empty: all whose form it can do."""

    def can(self, work: Work) -> bool:
        """Whether it does this row."""
        return work.form in self.most and (not self.keys or work.key in self.keys)

    def share_of(self, work: Work) -> Work:
        """The row with as many records as this client gets."""
        most = self.most[work.form]
        return work.scaled(most / work.records) if work.records > most else work


_ALL: Final = 10**9
_EVERY: Final[dict[Form, int]] = dict.fromkeys(
    ("rows", "objects", "columns", "batch", "texts"), _ALL
)


def _script(name: str) -> Callable[[Task], Call]:
    def call(task: Task) -> Call:
        program = [str(task.python), "-m", f"campaigns.peers.clients.{name}"]
        return Call([*program, *_arguments(task)], {**_QUIET, "PYTHONPATH": str(CHECKOUT)})

    return call


def _arguments(task: Task) -> list[str]:
    work = task.work
    options = ["--in-flight", str(work.in_flight), "--batch", str(work.batch)]
    return [work.form, str(task.source), str(task.target), task.url, *options]


_QUIET: Final = {
    "DAFT_ANALYTICS_ENABLED": "0",
    "DAFT_PROGRESS_BAR": "0",
    "DO_NOT_TRACK": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Nothing is reported to anyone, and nothing is fetched."""


def _gateway(task: Task) -> Call:
    """The user's program, with the arguments of the scripts: the gateway, and the services that it
    needs, are its children, so that the CPU time of all of them is counted."""
    return Call([os.environ[GATEWAY], *_arguments(task)])


def _mlserver(task: Task) -> Call:
    task.target.mkdir()
    paths = ["-i", str(task.source), "-o", str(task.target / "out.jsonl")]
    model = ["-u", f"127.0.0.1:{task.port}", "-m", "rows"]
    many = ["-s", str(task.work.batch), "-w", str(task.work.in_flight)]
    program = [str(task.python), str(task.python.parent / "mlserver"), "infer"]
    return Call([*program, *model, *paths, *many])


def _product(task: Task) -> Call:
    """The runner, with the files and variables that a Pod has."""
    work, folder = task.work, task.folder
    for name in ("input", "endpoints", "tmp"):
        (folder / name).mkdir()
    task.target.mkdir()
    os.link(task.source, folder / "input" / task.source.name)
    contract = folder / "contract.json"
    contract.write_text(json.dumps(contract_of(work, file=task.source.name, port=task.port)))
    settings = {
        "CONTRACT": contract,
        "INPUT_DIR": folder / "input",
        "OUTPUT_DIR": task.target,
        "ENDPOINTS_DIR": folder / "endpoints",
        "SPOOL_DIR": folder / "tmp",
        "TERMINATION_LOG": folder / "termination-log",
        "ALLOWED_ADDRESSES": "127.0.0.1",
        "CONCURRENCY": work.in_flight,
        **({} if work.is_chat else {"BATCH_ROWS": work.batch, "REQUEST_SECONDS": 0}),
    }
    variables = {f"INFERRUN_{name}": str(value) for name, value in settings.items()}
    return Call(
        [str(task.python), "-m", "inferrun_runner"], {**variables, "PYTHONPATH": str(CHECKOUT)}
    )


def contract_of(work: Work, *, file: str, port: int) -> dict[str, object]:
    """The contract of a run that does the work."""
    formats = {"batch": "openai", "columns": "parquet", "texts": "parquet"}
    kind = {"format": formats.get(work.form, "jsonl")}
    model = {"batch": "", "texts": "m"}.get(work.form, "rows")
    contract: dict[str, object] = {
        "jobId": "peers",
        "jobName": "peers",
        "kserve": {
            "modelUrl": f"127.0.0.1:{port}",
            "modelName": model,
            "protocolVersion": "openai" if work.is_chat else "v2",
        },
        "input": {"file": {"claimName": "peers", "path": file, **kind}},
        "output": {"file": {"claimName": "peers", "path": "out", **kind}},
    }
    if work.form == "objects":
        contract["tensors"] = {"inputs": [{"columns": list(COLUMNS)}]}
    if work.form == "texts":
        contract["request"] = {
            "task": "Chat",
            "system": SYSTEM,
            "prompt": INSTRUCTION + "{{ text }}",
            "maxTokens": 64,
        }
    return contract


CLIENTS: Final = (
    Client(
        PRODUCT,
        "The runner of this checkout, with a contract as in a Pod and the packages of its image: it "
        "counts and checks every record, makes each chunk durable, and commits a manifest.",
        _product,
        _EVERY,
        results="out/peers/predictions",
    ),
    Client(
        FLOOR,
        "A script with aiohttp, uvloop and orjson (`campaigns/peers/clients/floor.py`) that checks, "
        "counts and repeats nothing, in the environment of the runner.",
        _script("floor"),
        _EVERY,
    ),
    Client(
        "daft",
        "`read_json` or `read_parquet`, a column from an asynchronous batch function that sends with "
        "aiohttp, `write_json` or `write_parquet`; D with its own `prompt`, in batches of as many as may "
        "be in flight, because it sends all of a batch at once. It reads objects only, so its rows of A "
        'are `{"x": […]}`.',
        _script("with_daft"),
        {**_EVERY, "texts": 5_000},
        variants={"rows": "named"},
        package="daft",
    ),
    Client(
        "ray",
        "Ray Data: `read_json` or `read_parquet`, `map_batches`, `write_json` or `write_parquet`; V2 "
        "is sent with requests, chat requests with aiohttp, many per batch. It reads objects only, "
        "as Daft does.",
        _script("with_ray"),
        _EVERY,
        variants={"rows": "named"},
        package="ray",
    ),
    Client(
        "gateway",
        "llm-d's batch gateway with the PostgreSQL and Redis that it needs, run by a program that the variable "
        "`INFERRUN_GATEWAY` names: it is not installed by the campaign.",
        _gateway,
        {"batch": 50_000},
        needs=GATEWAY,
    ),
    Client(
        "openai",
        "`AsyncOpenAI` in a script: a task per record and a semaphore.",
        _script("with_openai"),
        {"batch": 10_000, "texts": 10_000},
        package="openai",
        keys=frozenset({"C", "D"}),
    ),
    Client(
        "litellm",
        "`litellm.acompletion` in a script: a task per record and a semaphore.",
        _script("with_litellm"),
        {"batch": 5_000},
        package="litellm",
        keys=frozenset({"C"}),
    ),
    Client(
        "mlserver",
        "`mlserver infer` with a request of V2 per line, of which it puts as many into one request "
        "as the others do.",
        _mlserver,
        {"rows": 50_000},
        variants={"rows": "requests"},
        package="mlserver",
    ),
)
