"""What the largest configs that are read cost the shim: CPU time, which does not depend on the
load, and memory."""

import gc
import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from inferrun.kube.decoding import MALFORMED, read_event
from inferrun.kube.objects import CONFIGS, MAX_FREE_FORM_CONTAINERS, SIZES
from inferrun.resources.parameters import MAX_DEFAULT, MAX_PARAMETERS
from operator_shim.config_verdicts import digest_config

CPU_SECONDS = 0.3
"""Of a slow machine; see the figures in docs/operations.md."""

PEAK_BYTES = 32 * 1024 * 1024
KEPT_BYTES = 512 * 1024

Storage = dict[str, Any]  # Any: free-form by design

NAMES = {"name": "large", "namespace": "team", "resourceVersion": "7", "uid": "u"}


def event_with(storage: Storage) -> bytes:
    spec = {"image": "own:1", "storage": {"input": {"own": storage}, "output": {"own": {}}}}
    body = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceConfig",
        "metadata": NAMES,
        "spec": spec,
    }
    return json.dumps({"type": "ADDED", "object": body}, separators=(",", ":")).encode()


def largest(storage_of: Callable[[int], Storage]) -> bytes:
    """The event of the largest config of this shape that is read."""
    low, high = 1, SIZES.free_form
    while low < high:
        middle = (low + high + 1) // 2
        raw = event_with(storage_of(middle))
        brackets = raw.count(b"[") + raw.count(b"{")
        fits = len(raw) <= SIZES.free_form and brackets <= MAX_FREE_FORM_CONTAINERS
        low, high = (middle, high) if fits else (low, middle - 1)
    return event_with(storage_of(low))


def nested(depth: int) -> Storage:
    found: Storage = {}
    for _ in range(depth):
        found = {"a": found}
    return found


SHAPES: dict[str, Callable[[int], Storage]] = {
    "one long text": lambda size: {"a": "x" * size},
    "small keys": lambda size: {f"k{number}": number for number in range(min(size, 100_000))},
    "empty lists": lambda size: {"a": [[]] * min(size, 100_000)},
    "deep objects": lambda size: {f"k{number}": nested(55) for number in range(min(size, 2_000))},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_largest_config_costs_milliseconds_and_little_memory(shape: str) -> None:
    measure(largest(SHAPES[shape]))


@pytest.mark.parametrize(
    "pattern",
    [
        "[^a]{100}",
        "(?i)[^k]{100}",
        r"[\W]{100}",
        "(?:a|b|c|d|[^e])*" * 14,
        r"\b\w\b\s*" * 20,
        "[^\u4e00-\u9fff]{50}" * 2,
    ],
)
def test_the_most_costly_patterns_of_parameters_cost_milliseconds(pattern: str) -> None:
    measure(declaring(pattern, "x"))


@pytest.mark.parametrize(
    "pattern", ["[01]*1" + "[01]" * 61, "(?s).*1" + "." * 110, "(?:1*)*0", "(1|11)+"]
)
def test_the_longest_defaults_are_matched_in_milliseconds(pattern: str) -> None:
    measure(declaring(pattern, f"{3**700:b}"[:MAX_DEFAULT]))


def declaring(pattern: str, default: str) -> bytes:
    """The event of a config with as many such parameters as are allowed."""
    declared = [
        {"name": f"p{number}", "pattern": pattern, "default": default}
        for number in range(MAX_PARAMETERS)
    ]
    spec = {"image": "own:1", "storage": {}, "parameters": declared}
    body = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceConfig",
        "metadata": NAMES,
        "spec": spec,
    }
    return json.dumps({"type": "ADDED", "object": body}).encode()


@pytest.mark.parametrize(
    "text", ["$(", "$(params.a)", "/*", "$q$", "'", "E'\\", '"', "$(params.a)/../", "--\n"]
)
def test_the_longest_strings_with_placeholders_cost_milliseconds(text: str) -> None:
    long = (text * 65_536)[:65_500]
    stores: tuple[Storage, ...] = (
        {"sql": {"credentialsRef": {"name": "a"}, "query": long + "$(params.a)"}},
        {"krateo": {"api": {"endpointRef": {"name": "a"}, "payload": json.dumps({"a": long})}}},
        {"http": {"url": "http://a/" + long}},
        {"file": {"claimName": "a", "path": long}},
    )
    for given in stores:
        spec = {"kserve": {"modelUrl": "http://a/b"}, "storage": {"input": given, "output": given}}
        body = {
            "apiVersion": "ai.krateo.io/v1",
            "kind": "InferenceConfig",
            "metadata": NAMES,
            "spec": spec,
        }
        measure(json.dumps({"type": "ADDED", "object": body}).encode())


def measure(raw: bytes) -> None:
    """Assert the limits for a config."""
    took = []
    for _ in range(3):
        began = time.process_time()
        kind, item = read_event(raw, CONFIGS)
        digest_config(item)
        took.append(time.process_time() - began)
        assert kind == "ADDED"
    gc.collect()
    tracemalloc.start()
    _, item = read_event(raw, CONFIGS)
    kept = digest_config(item)
    peak = tracemalloc.get_traced_memory()[1]
    del item
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept["metadata"]["name"] == "large"
    assert min(took) < CPU_SECONDS
    assert peak < PEAK_BYTES
    assert size < KEPT_BYTES


def test_annotations_that_nobody_reads_are_not_kept() -> None:
    """They have up to 256 KiB, in each of any number of configs."""
    metadata = {"name": "a", "namespace": "team", "resourceVersion": "7", "uid": "u"}
    annotations = {"krateo.io/paused": "true", "note": "x" * 200_000}
    kept = digest_config({"metadata": {**metadata, "annotations": annotations}, "spec": {}})
    assert kept["metadata"] == {**metadata, "annotations": {"krateo.io/paused": "true"}}


def typed(spec: dict[str, Any]) -> bytes:  # Any: fields of the spec
    """The event of a config with long lists in the fields of the schema, as many as are read."""
    body = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceConfig",
        "metadata": NAMES,
        "spec": spec,
    }
    raw = json.dumps({"type": "ADDED", "object": body}, separators=(",", ":")).encode()
    assert SIZES.free_form * 0.9 < len(raw) <= SIZES.free_form
    return raw


TYPED: dict[str, dict[str, Any]] = {  # Any: as above
    "columns of tensors": {"tensors": {"inputs": [{"columns": ["a"] * 2_500}] * 64}},
    "names of columns": {"tensors": {"inputs": [{"columns": ["a" * 256] * 38}] * 64}},
}


@pytest.mark.parametrize("shape", TYPED)
def test_the_longest_lists_of_the_schema_cost_no_more(shape: str) -> None:
    storage = {
        "input": {"file": {"claimName": "c", "path": "a"}},
        "output": {"file": {"claimName": "c", "path": "b"}},
    }
    kserve = {"modelUrl": "http://model/v2/models/a/infer"}
    measure(typed({"kserve": kserve, "storage": storage, **TYPED[shape]}))


def test_a_config_of_too_many_lists_is_not_parsed() -> None:
    kind, item = read_event(event_with({"a": [[]] * MAX_FREE_FORM_CONTAINERS}), CONFIGS)
    assert kind == MALFORMED
    assert "it has more than 20000 lists and objects" in item["unreadable"]
    assert item["metadata"]["name"] == "large"
