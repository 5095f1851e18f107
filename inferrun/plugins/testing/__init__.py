"""The tests that every store and protocol must pass, for packages of others: `pip install
'inferrun[testing]'`.

A test class names the store or the protocol and inherits what it must do:

    InputStoreTests       every input store
    OutputStoreTests      every output store
    ExactlyOnceTests      also an output store whose `delivery` is ExactlyOnce
    AbortableTests        also one whose abilities are `find_commit` and `abort`
    ProtocolTests         every protocol for records of numbers

The product never imports this package. Only pytest and its plug-in for asyncio are needed besides
what the store needs.
"""

import pytest

for _name in ("inputs", "outputs", "protocols"):
    pytest.register_assert_rewrite(f"{__name__}.{_name}")

from inferrun.plugins.testing.inputs import InputStoreTests  # noqa: E402  after the line above
from inferrun.plugins.testing.outputs import AbortableTests, ExactlyOnceTests, OutputStoreTests  # noqa: E402
from inferrun.plugins.testing.protocols import CANARY, ModelWorld, ProtocolTests, ServedModel  # noqa: E402
from inferrun.plugins.testing.worlds import InputWorld, OutputWorld, StoreWorld, store_context  # noqa: E402

__all__ = [
    "CANARY",
    "AbortableTests",
    "ExactlyOnceTests",
    "InputStoreTests",
    "InputWorld",
    "ModelWorld",
    "OutputStoreTests",
    "OutputWorld",
    "ProtocolTests",
    "ServedModel",
    "StoreWorld",
    "store_context",
]
