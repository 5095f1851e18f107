"""The bound on the nesting of JSON: exact, whatever strings contain, and linear."""

import json
import time
from contextlib import suppress
from random import Random

import pytest

from inferrun.nesting import MAX_DEPTH, TooDeep, check_depth, load_bounded


def nested(levels: int, inner: str = "1") -> str:
    return "[" * levels + inner + "]" * levels


@pytest.mark.parametrize(
    "inner", ["1", '"["', '"\\\\"', '"\\""', '"\\\\\\"["', '{"]": "}"}', '"a", "[", "b"']
)
def test_the_allowed_depth_is_accepted_and_one_more_is_not(inner: str) -> None:
    own = 1 if inner.startswith("{") else 0
    json.loads(nested(MAX_DEPTH - own, inner))
    check_depth(nested(MAX_DEPTH - own, inner).encode())
    with pytest.raises(TooDeep):
        check_depth(nested(MAX_DEPTH - own + 1, inner).encode())


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@pytest.mark.parametrize("seed", range(20))
def test_the_depth_is_that_of_the_parsed_value(seed: int) -> None:
    random = Random(seed)  # noqa: S311  reproducible

    def value(levels: int) -> object:
        kind = random.randrange(4) if levels else 3
        if kind == 0:
            return [value(levels - 1) for _ in range(random.randrange(4))]
        if kind < 3:
            return {
                random.choice(["a", '"', "\\", "]{"]): value(levels - 1)
                for _ in range(random.randrange(1, 4))
            }
        return random.choice([1, "", '[["', "\\\\", "}\n", None])

    inner = value(6)
    text = nested(MAX_DEPTH - depth_of(inner), json.dumps(inner))
    check_depth(text.encode())
    with pytest.raises(TooDeep):
        check_depth(nested(1, text).encode())


@pytest.mark.parametrize("unit", [b"[", b'["', b'{"a":', b"[],", b'"\\\\",', b'"[\\"",'])
def test_a_megabyte_is_checked_in_linear_time(unit: bytes) -> None:
    raw = unit * (1_000_000 // len(unit))
    began = time.process_time()
    with suppress(TooDeep):
        check_depth(raw)
    assert time.process_time() - began < 0.5


def test_untrusted_json_is_loaded_up_to_the_depth() -> None:
    assert load_bounded('{"a": [1]}') == {"a": [1]}
    for text in (nested(100_000), "{", "nothing"):
        with pytest.raises(ValueError, match=r"nested|Expecting"):
            load_bounded(text)
