"""Records as the values that templates take."""

from decimal import Decimal

import pyarrow as pa
import pytest

from inferrun.plugins import ArrowRecords, JsonRecords, RecordError
from inferrun_runner.protocols.prompts.row_model import rows_of


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array([0.1, None], pa.float32()), [0.1, None]),
        (pa.array([86_399_999_999_999], pa.time64("ns")), ["23:59:59.999999999"]),
        (pa.array([1], pa.timestamp("ns", "UTC")), ["1970-01-01T00:00:00.000000001+00:00"]),
        (pa.array([[0.1]], pa.list_(pa.float32())), [[0.1]]),
        (pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int8())), [{"k": 1}, {}]),
        (pa.array([b"\xff"], pa.binary()), [b"\xff"]),
        (pa.array([Decimal("1.10")], pa.decimal128(5, 2)), [Decimal("1.10")]),
    ],
    ids=lambda one: str(getattr(one, "type", "")),
)
def test_a_value_has_a_type_of_python_or_its_form_in_json(
    column: pa.Array, values: list[object]
) -> None:
    rows = rows_of(ArrowRecords(pa.record_batch({"v": column})))
    assert rows == [{"v": one} for one in values]


def test_a_time_that_python_lacks_fails_its_record_only() -> None:
    column = pa.array([0, 2**60], pa.timestamp("us"))
    good, bad = rows_of(ArrowRecords(pa.record_batch({"v": column})))
    assert not isinstance(good, RecordError)
    assert isinstance(bad, RecordError)
    assert bad.message == "column 'v' has a value that a template cannot take"


def test_a_number_of_json_with_more_digits_than_a_double_keeps_them() -> None:
    (row,) = rows_of(
        JsonRecords([b'{"a":123456789012345678.25,"b":0.1,"c":12345678901234567890123}'])
    )
    assert row == {"a": Decimal("123456789012345678.25"), "b": 0.1, "c": 12345678901234567890123}
