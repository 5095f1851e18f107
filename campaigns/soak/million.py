"""`python -m campaigns.soak.million`: a million rows from S3 to S3 through a run on the cluster,
whose Pod is killed in the middle.

The S3 server and the model server run on this machine, at the address of the cluster's bridge; the
runner runs in a Pod. Every row is looked up in the output, and compared with its expected
prediction.
"""

import argparse
import asyncio
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import orjson

from tests.e2e.conftest import install
from tests.e2e.stage import Object, Space, attached, config, kill_9, run
from tests.integration.runner.s3_server import ACCESS_KEY, SECRET_KEY, S3Server, s3_server
from tests.integration.runner.servers import CountingModel, counting_model

PAGE: Final = Path(__file__).parents[2] / "docs" / "contributing" / "soak.md"
BEGIN, END = "<!-- million -->\n", "<!-- end of million -->\n"
SECONDS: Final = 400.0

_COLUMNS: Final = (
    "rows",
    "seconds until half was committed",
    "seconds until it succeeded",
    "chunks",
    "chunks committed at the kill",
    "attempts",
    "rows sent more than once",
)
_HEAD: Final = f"| {' | '.join(_COLUMNS)} |\n{'| --- ' * len(_COLUMNS)}|\n"


@contextmanager
def _space(name: str) -> Iterator[Space]:
    stage = attached()
    install(stage)
    stage.kubectl("create", "namespace", name)
    try:
        yield Space(stage, name)
    finally:
        stage.kubectl("delete", "namespace", name, "--wait=false", check=False)


def _manifests(s3: S3Server, model: CountingModel) -> tuple[Object, ...]:
    secret: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s3-credentials"},
        "stringData": {"accessKeyId": ACCESS_KEY, "secretAccessKey": SECRET_KEY},
    }
    ours = config(
        "million",
        kserve={"modelName": "sum", "modelUrl": model.url, "modelInputName": "input-0"},
        requests={"maxBatchRecords": 5000},
        storage={"input": {"s3": s3.spec("in/")}, "output": {"s3": s3.spec("out")}},
        backoffLimit=2,
    )
    del ours["spec"]["image"]
    return secret, ours


def _write(folder: Path, rows: int) -> None:
    folder.mkdir()
    for part in range(10):
        first, stop = part * rows // 10, (part + 1) * rows // 10
        (folder / f"rows-{part}.jsonl").write_text(
            "".join(f"[{index},0.5]\n" for index in range(first, stop))
        )


def _faults(folder: Path, rows: int) -> list[str]:
    """Compare every row of the committed output with what it must be."""
    manifest = orjson.loads((folder / "manifest.json").read_bytes())
    expected = 0
    for part in manifest["parts"]:
        for line in (folder / part["file"]).read_bytes().splitlines():
            if orjson.loads(line) != {"index": expected, "prediction": expected + 0.5}:
                return [f"{part['file']}: row {expected} is {line[:80]!r}"]
            expected += 1
    return [] if expected == rows else [f"the output has {expected} rows"]


async def _until_half(space: Space, s3: S3Server) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            plans = list(s3.bucket.glob("out/*/run.json"))
            commits = list(s3.bucket.glob("out/*/commits/*.json"))
            if plans and len(commits) * 2 >= len(orjson.loads(plans[0].read_bytes())["chunks"]):
                return
            await asyncio.sleep(0.1)


async def _execute(rows: int, address: str, folder: Path) -> str:
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    async with s3_server(folder, host=address) as s3, counting_model(host=address) as model:
        _write(s3.bucket / "in", rows)
        with _space(name) as space:
            await asyncio.to_thread(space.apply, *_manifests(s3, model), run("million", "million"))
            began = time.monotonic()
            await _until_half(space, s3)
            half = time.monotonic() - began
            pod = (await asyncio.to_thread(space.items, "pods"))[0]["metadata"]["name"]
            await asyncio.to_thread(kill_9, space.stage, space.name, pod)
            committed = len(list(s3.bucket.glob("out/*/commits/*.json")))
            status = await asyncio.to_thread(
                space.wait_for, "million", phase="Succeeded", seconds=SECONDS
            )
            seconds = time.monotonic() - began
        (output,) = s3.bucket.glob("out/*")
        faults = _faults(output, rows)
        sent = sum(model.rows.values())
        assert faults == [], faults
        assert status["records"] == {"total": rows, "completed": rows, "failed": 0}, status
        chunks = len(orjson.loads((output / "run.json").read_bytes())["chunks"])
    cells = [
        f"{rows:,}",
        f"{half:.0f}",
        f"{seconds:.0f}",
        chunks,
        committed,
        status["attempt"],
        f"{sent - rows:,}",
    ]
    return f"{_HEAD}| {' | '.join(map(str, cells))} |\n"


async def main() -> int:
    """Execute the run, and print or record the figures."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.soak.million")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument(
        "--address", default="10.88.0.1", help="address of this machine that Pods reach"
    )
    parser.add_argument("--record", action="store_true", help=f"write the figures to {PAGE.name}")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="million-") as folder:
        table = await _execute(chosen.rows, chosen.address, Path(folder))
    sys.stdout.write(table)
    if chosen.record:
        text = PAGE.read_text()
        PAGE.write_text(f"{text.split(BEGIN)[0]}{BEGIN}\n{table}\n{END}{text.split(END)[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
