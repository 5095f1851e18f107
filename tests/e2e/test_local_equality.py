"""What `inferrun local` does is what the cluster does: the same manifests, executed by both, end with
the same status, the same manifest of the output and the same results, apart from names and times.
"""

import gzip
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import pytest

from inferrun.client.errors import InvalidRequest, RunFailed
from inferrun.local import run as run_locally
from inferrun.local.result import LaunchRefused
from inferrun.resources import parse_run
from inferrun.results import read_results
from tests.e2e.file_world import CLAIM, OF_CLAIM, model_server, service
from tests.e2e.stage import Object, Space, provide_volumes, run, until

RECORDS: Final = 60
AT_A_TIME: Final = 8
FORMATS: Final = ("jsonl", "csv", "parquet", "arrow")

SAME: Final = ("phase", "reason", "message", "exitCode", "records", "usage", "delivery", "output")
"""Of the status."""

WAITS: Final = ("ConfigNotReady",)

NAMES_AND_TIMES: Final = (
    "runId",
    "jobName",
    "contractSha256",
    "committedAt",
    "startedAt",
    "podUid",
)
"""Of the manifest."""


def write_inputs(folder: Path) -> None:
    """The same records in every form."""
    folder.mkdir(parents=True)
    rows = [[index, 0.5] for index in range(RECORDS)]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "rows.jsonl").write_text(lines)
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    (folder / "ids.jsonl").write_text(
        "".join(
            json.dumps({"custom_id": f"r{at}", "inputs": row}) + "\n" for at, row in enumerate(rows)
        )
    )
    (folder / "rows.json").write_text(json.dumps(rows))
    (folder / "objects.jsonl").write_text(
        "".join(json.dumps({"x": x, "y": y, "text": f"row {x}"}) + "\n" for x, y in rows)
    )
    (folder / "rows.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
    (folder / "bad.jsonl").write_text(lines + "no json\n[1]\n")
    (folder / "negative.jsonl").write_text(lines + "[-1, 0.5]\n")
    (folder / "empty.jsonl").write_text("")
    texts = pyarrow.table(
        {"id": list(range(RECORDS)), "text": [f"text {at}" for at in range(RECORDS)]}
    )
    numbers = pyarrow.table({"x": [float(x) for x, _ in rows], "y": [y for _, y in rows]})
    pyarrow.parquet.write_table(numbers, folder / "rows.parquet")
    pyarrow.parquet.write_table(texts, folder / "texts.parquet")
    pyarrow.orc.write_table(numbers, folder / "rows.orc")
    pyarrow.feather.write_feather(numbers, folder / "rows.arrow", compression="uncompressed")
    for day in (1, 2):
        part = folder / f"parts/day={day}"
        part.mkdir(parents=True)
        pyarrow.parquet.write_table(numbers, part / "rows.parquet")
    batch = (
        {
            "custom_id": f"b{at}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "tiny", "messages": [{"role": "user", "content": f"say {at}"}]},
        }
        for at in range(RECORDS)
    )
    (folder / "batch.jsonl").write_text("".join(json.dumps(one) + "\n" for one in batch))


# Any: fields of a spec
def case(
    name: str,
    path: str = "rows.jsonl",
    /,
    *,
    of_run: Any = None,
    given: Any = None,
    out: Any = None,
    model: str = "sums",
    **spec: Any,
) -> tuple[str, Object, Object]:
    """Name, config without its model's address, and spec of the run."""
    storage = {
        "input": {"file": {"claimName": "data", "path": f"in/{path}", **(given or {})}},
        "output": {"file": {"claimName": "data", "path": "out", **(out or {})}},
    }
    return name, {"storage": storage, "backoffLimit": 0, "model": model, **spec}, of_run or {}


COLUMNS: Final[Object] = {"tensors": {"inputs": [{"name": "in", "columns": ["x", "y"]}]}}
CHAT: Final[Object] = {"protocolVersion": "openai", "modelName": "tiny"}
PROMPT: Final[Object] = {"chat": True, "request": {"prompt": "Say {{ text }}"}}
DAY: Final = {"start": "2026-11-21T00:00:00Z", "end": "2026-11-22T00:00:00Z"}


def cases() -> Iterator[tuple[str, Object, Object]]:
    for path in ("rows.jsonl", "rows.jsonl.gz", "ids.jsonl", "rows.json"):
        yield case(f"plain-{path.replace('.', '-')}", path)
    for form in ("csv", "parquet", "arrow", "orc"):
        yield case(f"from-{form}", f"rows.{form}", given={"format": form})
        yield case(f"columns-{form}", f"rows.{form}", given={"format": form}, **COLUMNS)
        for target in FORMATS:
            yield case(
                f"{form}-to-{target}",
                f"rows.{form}",
                given={"format": form},
                out={"format": target},
                joinSource="Input",
                **COLUMNS,
            )
    yield case("objects", "objects.jsonl", **COLUMNS)
    yield case("objects-passed", "objects.jsonl", passThroughColumns=["text"], **COLUMNS)
    yield case(
        "partitioned",
        "parts",
        given={"format": "parquet"},
        out={"format": "parquet", "layout": {"partitions": "Input"}},
        joinSource="Input",
        **COLUMNS,
    )
    yield case(
        "batch-file", "batch.jsonl", given={"format": "openai"}, out={"format": "openai"}, chat=True
    )
    for target in ("jsonl", "parquet"):
        yield case(
            f"prompt-to-{target}",
            "texts.parquet",
            given={"format": "parquet"},
            out={"format": target},
            **PROMPT,
        )
    yield case(
        "prompt-with-system",
        "objects.jsonl",
        chat=True,
        request={"system": "Be brief.", "prompt": "{{ text }} of {{ x }}", "maxTokens": 5},
    )
    yield case(
        "prompt-of-no-column", "objects.jsonl", chat=True, request={"prompt": "{{ missing }}"}
    )
    for size in (1, 7, 1000):
        yield case(f"requests-of-{size}", requests={"maxBatchRecords": size})
    yield case("small-chunks", limits={"chunk": "1Ki"})
    yield case("one-at-a-time", requests={"concurrency": 1, "maxBatchRecords": 10})
    yield case(
        "parameter", "$(params.file).jsonl", parameters=[{"name": "file", "default": "rows"}]
    )
    yield case("parameter-of-run", "$(params.file).jsonl", of_run={"parameters": {"file": "ids"}})
    yield case("parameter-missing", "$(params.file).jsonl")
    yield case("interval", "$(interval.start:%d)/rows.jsonl", of_run={"interval": DAY})
    yield case("interval-missing", "$(interval.start:%d)/rows.jsonl")
    yield case("dry-run", of_run={"dryRun": True})
    yield case("dry-run-of-nothing", "nothing.jsonl", of_run={"dryRun": True})
    yield case("canary", canaryRecords=5)
    yield case("canary-dies", "negative.jsonl", model="counting", canaryRecords=5, errorThreshold=0)
    yield case("bad-records", "bad.jsonl", errorThreshold=5)
    yield case("too-many-bad-records", "bad.jsonl", errorThreshold=1)
    yield case("no-threshold", "bad.jsonl")
    yield case("rejected-record", "negative.jsonl", model="counting", errorThreshold="10%")
    yield case("empty", "empty.jsonl")
    yield case("nothing", "nothing.jsonl")
    yield case("unknown-placeholder", "$(other.file).jsonl")
    yield case("wrong-format", "rows.csv", given={"format": "parquet"})
    yield case(
        "wrong-column", "rows.csv", tensors={"inputs": [{"name": "in", "columns": ["x", "z"]}]}
    )
    yield case(
        "wrong-tensor", "rows.csv", tensors={"inputs": [{"name": "other", "columns": ["x", "y"]}]}
    )
    yield case("shards", shards=2, limits={"chunk": "1Ki"}, requests={"maxBatchRecords": 5})
    yield case("retry-of-nothing", of_run={"retryOf": "nobody"})
    yield case("deadline", of_run={"timeoutSeconds": 120})
    yield case("ttl-and-policy", ttlSecondsAfterFinished=60, autoDeletePolicy="None")
    yield case("resources", resources={"limits": {"memory": "1Gi"}, "requests": {"cpu": "10m"}})


CASES: Final = list(cases())


def config_of(name: str, spec: Object, *, address: str) -> Object:
    found = dict(spec)
    model, is_chat = found.pop("model"), found.pop("chat", False)
    kserve = (
        {"modelUrl": f"http://{address}", **CHAT}
        if is_chat
        else {
            "modelName": model,
            "modelUrl": f"http://{address}/v2/models/{model}/infer",
            "modelInputName": "in",
        }
    )
    return {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceConfig",
        "metadata": {"name": name},
        "spec": {"kserve": kserve, **found},
    }


def same(value: Any) -> Any:  # Any: JSON
    """A value without what differs between two runs of a name."""
    text = json.dumps(value, sort_keys=True)
    text = re.sub(r"(inf-[a-z0-9-]+?)-[0-9a-f]{8}\b", r"\1-UID", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "UUID", text)
    text = re.sub(r"local-UUID", "UUID", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "SHA", text)
    return json.loads(text)


def ended_status(space: Space, name: str) -> Object | None:
    status = space.status(name)
    is_over = status.get("phase") in ("Succeeded", "Failed")
    return status if is_over or status.get("reason") in WAITS else None


def ended(status: Object) -> Object:
    found: Object = same({key: status[key] for key in SAME if key in status})
    return found


def results(run_object: Object, folder: Path) -> tuple[Object, list[Object]]:
    found = read_results(parse_run(run_object), directory=folder)
    manifest = found.manifest.model_dump(mode="json", by_alias=True, exclude_none=True)
    for name in NAMES_AND_TIMES:
        manifest.pop(name, None)
    return same(manifest), [json.loads(row) for row in found.json_lines()]


def claim_folder(space: Space) -> Path:
    """Where the claim's volume is on this machine."""

    def bound() -> str | None:
        claim = space.get("pvc", "data") or {}
        return (claim.get("spec") or {}).get("volumeName")

    name = until(bound, seconds=60, what="the claim is bound")
    volume = json.loads(space.kubectl("get", "pv", name, "-o", "json"))
    return Path(volume["spec"]["local"]["path"])


@pytest.mark.thorough
def test_a_run_ends_on_one_machine_as_in_the_cluster(space: Space, tmp_path: Path) -> None:
    assert len(CASES) >= 60
    provide_volumes()
    space.apply(
        CLAIM,
        *model_server("models", OF_CLAIM, REQUEST_SECONDS="0", LISTED="tiny"),
        service("models", app="models"),
    )
    space.kubectl("wait", "pod/models", "--for=condition=Ready", "--timeout=55s")
    address = space.get("service", "models")["spec"]["clusterIP"]  # type: ignore[index]
    theirs, ours = claim_folder(space), tmp_path / "data"
    write_inputs(ours / "in")
    (ours / "in/21").mkdir()
    shutil.copy(ours / "in/rows.jsonl", ours / "in/21")
    shutil.copytree(ours / "in", theirs / "in")
    (ours / "out").mkdir()
    differences: dict[str, object] = {}
    phases: Counter[str] = Counter()
    for place, (name, spec, of_run) in enumerate(CASES):
        if place % AT_A_TIME == 0:  # more would be too many for the model server
            for one, its_spec, its_run in CASES[place : place + AT_A_TIME]:
                space.apply(config_of(one, its_spec, address=address), run(one, one, **its_run))
            for one, _, _ in CASES[place : place + AT_A_TIME]:
                until(partial(ended_status, space, one), seconds=300, what=f"{one} ended")
        theirs_ended = ended_status(space, name) or {}
        ours_object = local_run(
            config_of(name, spec, address=address),
            run(name, name, **of_run),
            tmp_path,
            namespace=space.name,
        )
        found = {"local": ended(ours_object["status"]), "cluster": ended(theirs_ended)}
        if theirs_ended["reason"] in WAITS:
            # it would go on once the config is corrected; here the command is repeated
            found = {key: {"message": one["message"]} for key, one in found.items()}
        if found["local"] != found["cluster"]:
            differences[name] = found
            continue
        phases[theirs_ended["phase"]] += 1
        if theirs_ended["phase"] == "Succeeded" and (theirs_ended.get("output") or {}).get(
            "sha256"
        ):
            stored = space.get("inferencerun", name)
            assert stored is not None
            if results(ours_object, ours) != results(stored, theirs):
                differences[name] = "results"
    assert not differences, json.dumps(differences, indent=1)
    assert phases["Succeeded"] >= 40
    assert phases["Failed"] >= 10


def local_run(config: Object, run: Object, folder: Path, *, namespace: str) -> Object:
    """The run with the status that it has on this machine."""
    run["metadata"]["namespace"] = namespace
    state = folder / "state"
    try:
        run_locally(config, run, claims={"data": folder / "data"}, state=state)
    except RunFailed:
        pass
    except LaunchRefused as error:
        found = {"phase": "Failed", "reason": error.reason, "message": error.message}
        return {"status": {**found, "delivery": "Unknown"}}
    except InvalidRequest as error:
        return {"status": {"message": str(error)}}
    stored = json.loads((state / "runs" / run["metadata"]["name"] / "run.json").read_text())
    ended_run: Object = stored["run"]
    return ended_run
