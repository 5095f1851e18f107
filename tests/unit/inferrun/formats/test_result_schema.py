"""The columns of results, and the names of types."""

import pyarrow
import pytest

from inferrun.formats.result_schema import (
    ResultSchema,
    Role,
    parse_type,
    result_schema,
    value_type,
    with_role,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int32", pyarrow.int32()),
        ("uint64", pyarrow.uint64()),
        ("float", pyarrow.float32()),
        ("double", pyarrow.float64()),
        ("decimal(20,6)", pyarrow.decimal128(20, 6)),
        ("decimal(50, 2)", pyarrow.decimal256(50, 2)),
        ("timestamp[us, UTC]", pyarrow.timestamp("us", "UTC")),
        ("timestamp[ns]", pyarrow.timestamp("ns")),
        ("time64[us]", pyarrow.time64("us")),
        ("list<float>", pyarrow.list_(pyarrow.float32())),
        ("float[384]", pyarrow.list_(pyarrow.float32(), 384)),
        ("float[3][2]", pyarrow.list_(pyarrow.list_(pyarrow.float32(), 3), 2)),
        (
            "struct<label: string, scores: list<double>>",
            pyarrow.struct(
                [("label", pyarrow.string()), ("scores", pyarrow.list_(pyarrow.float64()))]
            ),
        ),
        ("json", pyarrow.json_()),
    ],
)
def test_a_type_has_a_name(text: str, expected: pyarrow.DataType) -> None:
    assert parse_type(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "integer",
        "int32 x",
        "decimal",
        "decimal(80,2)",
        "list<int32",
        "time32[ns]",
        "struct<>",
        "struct<a>",
        "int8[]",
    ],
)
def test_another_name_is_rejected_with_those_that_are_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a type; allowed are bool, int8, "):
        parse_type(text)


def test_the_roles_of_columns_are_stored() -> None:
    fields = [
        ("index", Role.INDEX),
        ("id", Role.KEY),
        ("a", Role.COPIED),
        ("x", Role.PREDICTION),
        ("error", Role.ERROR),
    ]
    schema = ResultSchema(
        pyarrow.schema(
            [with_role(pyarrow.field(name, pyarrow.int64()), role) for name, role in fields]
        )
    )
    stored = ResultSchema.deserialized(schema.serialized())
    assert stored.arrow.equals(schema.arrow, check_metadata=True)
    assert stored.names(Role.KEY) == ("id",)
    assert stored.is_flat


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (pyarrow.month_day_nano_interval(), pyarrow.json_()),
        (
            pyarrow.list_(pyarrow.sparse_union([pyarrow.field("a", pyarrow.int64())])),
            pyarrow.json_(),
        ),
        (pyarrow.struct([("a", pyarrow.month_day_nano_interval())]), pyarrow.json_()),
        (
            pyarrow.list_view(pyarrow.dictionary(pyarrow.int8(), pyarrow.string_view())),
            pyarrow.list_(pyarrow.string()),
        ),
        (pyarrow.run_end_encoded(pyarrow.int16(), pyarrow.float64()), pyarrow.float64()),
        (pyarrow.decimal32(5, 2), pyarrow.decimal128(5, 2)),
    ],
)
def test_a_column_of_results_has_a_type_that_every_reader_knows(
    given: pyarrow.DataType, stored: pyarrow.DataType
) -> None:
    found = result_schema(
        key=None,
        copied=[pyarrow.field("x", given)],
        predicted=pyarrow.float64(),
        types={},
        is_flat=False,
        field="output",
    )
    assert value_type(found.arrow.field("x")) == stored
