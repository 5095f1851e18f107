"""A folder of which not all is read: the run's message and `run.json` say what is not, and why."""

import json
from pathlib import Path

from inferrun_runner.contract_file import read_contract
from inferrun_runner.settings import read_settings
from inferrun_runner.verify import verify
from tests.integration.runner.pods import Machine
from tests.integration.runner.s3_server import S3Server, credentials

READ = "1 of 1 records predicted"
NOT_READ = (
    "; not read: other extension 5 (notes-0.txt, notes-1.txt, notes-2.txt, …), extension in another case 1 (B.JSONL), "
    "nested folder 1 (old)"
)
EMPTY = ", empty 1 (c.jsonl), without records 1 (d.jsonl)"


def fill(folder: Path) -> None:
    (folder / "old" / "older").mkdir(parents=True)
    contents = {
        "a.jsonl": "[1, 2]\n",
        "B.JSONL": "[1, 2]\n",
        "c.jsonl": "",
        "d.jsonl": "\n\n",
        "old/e.jsonl": "[1, 2]\n",
        "old/older/f.jsonl": "[1, 2]\n",
        **{f"notes-{at}.txt": "text" for at in range(5)},
    }
    for name, content in contents.items():
        (folder / name).write_text(content)


async def test_what_is_not_read_of_a_folder_is_named(file: Machine) -> None:
    file.contract["input"]["file"]["path"] = "data"
    fill(file.input / "data")
    (file.input / "data" / ".hidden.jsonl").write_text("[1, 2]\n")
    ended = await file.pod()
    assert ended.message == f"{READ}{NOT_READ}, hidden 1 (.hidden.jsonl){EMPTY}"
    again = await file.pod()
    assert again.result == ended.result
    settings = read_settings(file.environment_of_next_pod())
    found = await verify(read_contract(settings.contract), settings, is_final=False)
    assert found.message == ended.message
    document = json.loads((file.output / "results" / "inf-sums-5be07ada" / "run.json").read_text())
    assert document["skipped"][0] == {
        "reason": "OtherExtension",
        "count": 5,
        "names": [f"notes-{at}.txt" for at in range(5)],
    }
    assert [one["reason"] for one in document["skipped"][1:]] == [
        "OtherCase",
        "NestedFolder",
        "Hidden",
        "Empty",
        "NoRecords",
    ]


async def test_what_is_not_read_below_a_prefix_is_named(file: Machine, s3: S3Server) -> None:
    for side in ("input", "output"):
        credentials(file.folder / "endpoints" / side)
        file.contract[side] = {"s3": s3.spec("in/" if side == "input" else "out")}
    fill(s3.bucket / "in")
    ended = await file.pod()
    assert ended.message == f"{READ}{NOT_READ}{EMPTY}"
    document = json.loads((s3.bucket / "out" / "inf-sums-5be07ada" / "run.json").read_text())
    assert [one["count"] for one in document["skipped"]] == [5, 1, 1, 1, 1]


async def test_many_long_names_are_shortened(file: Machine) -> None:
    file.contract["input"]["file"]["path"] = "data"
    (file.input / "data" / "a.jsonl").write_text("[1, 2]\n")
    for at in range(200):
        (file.input / "data" / f"{at:03}{'ü' * 100}\n.txt").touch()
    ended = await file.pod()
    assert ended.message.startswith(f"{READ}; not read: other extension 200 (000üüü")
    assert len(ended.message) < 400
    document = json.loads((file.output / "results" / "inf-sums-5be07ada" / "run.json").read_text())
    assert len(document["skipped"][0]["names"]) == 20


async def test_a_dry_run_names_what_would_not_be_read(file: Machine) -> None:
    file.contract["dryRun"] = True
    file.contract["input"]["file"]["path"] = "data"
    fill(file.input / "data")
    ended = await file.pod()
    assert NOT_READ.removeprefix("; ") in ended.message
