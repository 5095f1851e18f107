"""Runs whose model server gives invalid responses or fails: for some records, for all of them, or for a while."""

import json
import re
from collections.abc import Callable, Collection
from typing import Any

import orjson
import pytest

from tests.conformance.inference_messages import message_class
from tests.conformance.protocol_worlds import CANARY, PROTOCOLS, ProtocolWorld, Rows, sums, unchanged
from tests.integration.runner.pods import Ended, Machine

pytestmark = pytest.mark.thorough

COUNT = 100
BAD = (17, 63)
HIDDEN = 731.25
"""The second number of the bad rows, which no message may contain."""


class Crashed(Exception):
    """An exception in the code of a model: status 500, or UNKNOWN over gRPC, whatever the server."""


Defect = Callable[[bytes], bytes]


def edited(edit: Callable[[dict[str, Any]], object]) -> Defect:  # Any: JSON
    """A response whose JSON was changed."""

    def apply(body: bytes) -> bytes:
        document = json.loads(body)
        edit(document)
        return json.dumps(document).encode()

    return apply


def edited_message(edit: Callable[[Any], object]) -> Defect:  # Any: a generated message
    """A response of gRPC that was changed."""

    def apply(body: bytes) -> bytes:
        message = message_class("ModelInferResponse").FromString(body)
        edit(message)
        return bytes(message.SerializeToString())

    return apply


def shorten(document: dict[str, Any]) -> None:  # Any: JSON
    """Remove the last prediction."""
    output = document["outputs"][0]
    output["data"].pop()
    output["shape"] = [len(output["data"])]


TEXTS: dict[str, Defect] = {
    "no JSON": lambda _: f"<html>{CANARY}</html>".encode(),
    "empty": lambda _: b"",
    "truncated": lambda body: body[:-3],
}
V1: dict[str, Defect] = {
    **TEXTS,
    "count": edited(lambda one: one["predictions"].pop()),
    "type": edited(lambda one: one.update(predictions=CANARY)),
    "no output": edited(lambda one: one.pop("predictions")),
}
V2: dict[str, Defect] = {
    **TEXTS,
    "count": edited(shorten),
    "shape": edited(lambda one: one["outputs"][0].update(shape=[1, 9])),
    "type": edited(lambda one: one["outputs"][0].update(data=CANARY)),
    "no output": edited(lambda one: one.update(outputs=[])),
}
BINARY: dict[str, Defect] = {
    "no JSON": lambda body: b"<" * len(body),
    "empty": lambda _: b"",
    "truncated": lambda body: body[:-3],
    "count": lambda body: body + body[-8:],
    "shape": lambda body: re.sub(rb'"shape":\[\d', b'"shape":[0', body),
    "type": lambda body: body.replace(b'"FP64"', b'"FP99"'),
}
GRPC: dict[str, Defect] = {
    "no message": lambda _: b"\xff" * 20,
    "empty": lambda _: b"",
    "truncated": lambda body: body[:-3],
    "count": edited_message(lambda one: one.raw_output_contents.pop()),
    "shape": edited_message(lambda one: one.outputs[0].shape.append(9)),
    "type": edited_message(lambda one: setattr(one.outputs[0], "datatype", CANARY)),
    "no output": edited_message(lambda one: one.ClearField("outputs")),
}
DEFECTS = {"v1": V1, "v2": V2, "v2-binary": BINARY, "grpc-v2": GRPC}
CASES = [(protocol, kind) for protocol, kinds in DEFECTS.items() for kind in kinds]


def damaging(defect: Defect, bad: Collection[int]) -> Callable[[Rows, bytes], bytes]:
    """Damage the responses to requests that contain one of these records."""
    return lambda rows, body: defect(body) if any(row[0] in bad for row in rows) else body


def prepared(machine: Machine, world: ProtocolWorld, count: int = COUNT, bad: Collection[int] = BAD) -> Machine:
    """A run of so many records with this server."""
    lines = (f"[{index}, {HIDDEN if index in bad else 0.5}]\n" for index in range(count))
    (machine.input / "data" / "rows.jsonl").write_text("".join(lines))
    machine.contract["kserve"] = {
        "modelName": "sum",
        "modelUrl": world.server.url,
        "protocolVersion": world.name,
    }
    return machine


def lines_of(machine: Machine, folder: str) -> list[dict[str, Any]]:  # Any: JSON
    parts = sorted((machine.output / "results" / str(machine.contract["jobName"]) / folder).iterdir())
    return [orjson.loads(line) for part in parts for line in part.read_bytes().splitlines()]


def assert_only_bad_failed(machine: Machine, ended: Ended, bad: Collection[int] = BAD) -> None:
    """Every record has its own prediction, except for the bad ones, which have an error."""
    failed = len(bad)
    expected = f"{COUNT - failed} of {COUNT} records predicted; {failed} failed, with their errors in the output"
    assert (ended.code, ended.message) == (0, expected)
    errors = lines_of(machine, "errors")
    assert [one["index"] for one in errors] == sorted(bad)
    assert {one["error"]["code"] for one in errors} == {"invalid_response"}
    assert all(one["error"]["message"].startswith("model 'sum' at") for one in errors)
    assert all(one["error"]["attempts"] >= 2 for one in errors)
    assert CANARY not in str(errors).lower()
    assert str(HIDDEN) not in str(errors)
    predictions = {one["index"]: one.get("prediction") for one in lines_of(machine, "predictions")}
    assert predictions == {index: None if index in bad else index + 0.5 for index in range(COUNT)}


@pytest.mark.parametrize(("protocol", "kind"), CASES)
async def test_an_invalid_response_costs_one_record(file: Machine, protocol: str, kind: str) -> None:
    async with PROTOCOLS[protocol]() as world:
        world.server.damage = damaging(DEFECTS[protocol][kind], BAD)
        ended = await prepared(file, world).pod(INFERRUN_BATCH_ROWS="40")
    assert_only_bad_failed(file, ended)


async def test_a_bad_record_that_is_sent_alone_before_all_others_costs_one_record(file: Machine) -> None:
    """It waits until the server has given a valid response to another one."""
    async with PROTOCOLS["v2"]() as world:
        world.server.damage = damaging(TEXTS["empty"], (0, 50))
        one_by_one = {"INFERRUN_BATCH_ROWS": "1", "INFERRUN_CONCURRENCY": "1", "INFERRUN_RETRY_SECONDS": "60"}
        ended = await prepared(file, world, bad=(0, 50)).pod(**one_by_one)
    assert_only_bad_failed(file, ended, (0, 50))


@pytest.mark.parametrize("threshold", ["", "0", "50%", "100%"])
@pytest.mark.parametrize("protocol", DEFECTS)
async def test_a_server_that_gives_only_invalid_responses_ends_the_attempt(
    file: Machine, protocol: str, threshold: str
) -> None:
    """Whatever the threshold: no record is to blame, and another attempt may find a server that works."""
    async with PROTOCOLS[protocol]() as world:
        world.server.damage = lambda _, body: DEFECTS[protocol]["truncated"](body)
        file.contract |= {"errorThreshold": threshold} if threshold else {}
        ended = await prepared(file, world, 3000).pod()
    assert (ended.code, ended.result.reason, ended.result.retryable) == (4, "InferenceFailed", True)
    assert "returned an invalid V" in ended.message
    assert len(world.server.received) < 300


async def test_a_server_that_stops_giving_valid_responses_costs_no_record(file: Machine) -> None:
    """Such as a proxy that shows a page of its own with status 200."""
    file.contract["errorThreshold"] = "100%"
    async with PROTOCOLS["v2"]() as world:
        server = world.server

        def break_down(_: Rows, body: bytes) -> bytes:
            return body if len(server.received) < 10 else TEXTS["no JSON"](body)

        server.damage = break_down
        small = {"INFERRUN_BATCH_ROWS": "10", "INFERRUN_CHUNK_BYTES": "1024", "INFERRUN_CONCURRENCY": "1"}
        ended = await prepared(file, world, 5000).pod(**small)
        assert (ended.code, ended.result.retryable) == (4, True)
        assert "not valid JSON" in ended.message
        assert len(server.received) < 100
        server.damage = unchanged
        ended = await file.pod(**small)
    assert (ended.code, ended.message) == (0, "5000 of 5000 records predicted")


async def test_a_threshold_ends_the_run_when_a_working_server_gives_many_invalid_responses(file: Machine) -> None:
    """The server works: the records are to blame, so another attempt would find the same."""
    bad = range(100, 3000)
    async with PROTOCOLS["v2"]() as world:
        world.server.damage = damaging(TEXTS["no JSON"], bad)
        file.contract["errorThreshold"] = "1%"
        ended = await prepared(file, world, 3000, bad).pod(INFERRUN_CONCURRENCY="1")
    assert (ended.code, ended.result.reason, ended.result.retryable) == (4, "ErrorThresholdExceeded", False)
    assert len(world.server.received) < 300


@pytest.mark.parametrize("reaction", ["one prediction", "crash"])
@pytest.mark.parametrize("protocol", ["v1", "v2"])
async def test_a_model_that_predicts_one_record_per_request_is_reported(
    file: Machine, protocol: str, reaction: str
) -> None:
    """Otherwise the run would go on with twice as many requests as records."""

    def predict(rows: Rows) -> list[Any]:  # Any: a prediction
        if len(rows) > 1 and reaction == "crash":
            raise Crashed
        return sums(rows[:1])

    async with PROTOCOLS[protocol]() as world:
        world.server.predict = predict
        ended = await prepared(file, world, 3000).pod(INFERRUN_BATCH_ROWS="1000")
        assert (ended.code, "requests.maxBatchRecords: 1" in ended.message) == (4, True), ended.message
        assert len(world.server.received) < 300
        file.contract["jobName"] = "inf-other"
        assert (await file.pod(INFERRUN_BATCH_ROWS="1")).code == 0
