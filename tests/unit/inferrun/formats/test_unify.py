"""One schema for all files: the rules, each of which keeps every value, and the conflicts."""

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferrun.formats.exact_casts import cast_exactly, normalized
from inferrun.formats.unify import SchemaRules, common_type, unified
from inferrun.plugins import InputError

i8, i16, i32, i64 = pyarrow.int8(), pyarrow.int16(), pyarrow.int32(), pyarrow.int64()
u8, u32, u64 = pyarrow.uint8(), pyarrow.uint32(), pyarrow.uint64()
f16, f32, f64 = pyarrow.float16(), pyarrow.float32(), pyarrow.float64()
text, long_text = pyarrow.string(), pyarrow.large_string()


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (i32, i64, i64),
        (i8, u8, i16),
        (u32, i8, i64),
        (u64, i64, None),
        (u8, u64, u64),
        (u8, u32, u32),
        (i32, f32, f64),
        (i16, f32, f32),
        (u32, f64, f64),
        (i64, f64, None),
        (f16, f64, f64),
        (f16, f32, f32),
        (pyarrow.decimal128(10, 2), pyarrow.decimal128(8, 4), pyarrow.decimal128(12, 4)),
        (pyarrow.decimal128(38, 2), pyarrow.decimal128(38, 8), pyarrow.decimal256(44, 8)),
        (pyarrow.decimal128(5, 2), i32, pyarrow.decimal128(12, 2)),
        (pyarrow.decimal256(76, 0), pyarrow.decimal128(38, 8), None),
        (pyarrow.decimal128(5, 2), f64, None),
        (text, pyarrow.dictionary(i32, text), text),
        (text, long_text, long_text),
        (pyarrow.string_view(), text, text),
        (pyarrow.binary(4), pyarrow.binary(), pyarrow.binary()),
        (pyarrow.binary(), text, None),
        (pyarrow.timestamp("s"), pyarrow.timestamp("us"), pyarrow.timestamp("us")),
        (
            pyarrow.timestamp("s", "UTC"),
            pyarrow.timestamp("s", "Europe/Rome"),
            pyarrow.timestamp("s", "UTC"),
        ),
        (pyarrow.timestamp("s", "UTC"), pyarrow.timestamp("s"), None),
        (pyarrow.date32(), pyarrow.date64(), pyarrow.date32()),
        (pyarrow.date32(), pyarrow.timestamp("s"), None),
        (pyarrow.time32("ms"), pyarrow.time64("ns"), pyarrow.time64("ns")),
        (pyarrow.list_(i32), pyarrow.list_(i64), pyarrow.list_(i64)),
        (pyarrow.list_(f32, 3), pyarrow.list_(f32, 3), pyarrow.list_(f32, 3)),
        (pyarrow.list_(f32, 3), pyarrow.list_(f32, 4), pyarrow.list_(f32)),
        (pyarrow.large_list(text), pyarrow.list_(text), pyarrow.large_list(text)),
        (pyarrow.struct([("a", i32)]), pyarrow.struct([("a", i64)]), pyarrow.struct([("a", i64)])),
        (pyarrow.struct([("a", i32)]), pyarrow.struct([("b", i32)]), None),
        (pyarrow.bool_(), i8, None),
        (i64, text, None),
        (pyarrow.null(), i64, i64),
    ],
)
def test_two_types_become_one_that_has_the_values_of_both(
    first: pyarrow.DataType, second: pyarrow.DataType, both: pyarrow.DataType | None
) -> None:
    assert common_type(first, second) == both
    assert common_type(second, first) == both


_SCALARS = {i8: 8, i16: 16, i32: 32, i64: 64, u8: 8, u32: 32, u64: 64}


@settings(deadline=None, derandomize=True)
@given(st.sampled_from(list(_SCALARS)), st.sampled_from([*_SCALARS, f16, f32, f64]), st.data())
def test_no_number_is_rounded(
    first: pyarrow.DataType, second: pyarrow.DataType, data: st.DataObject
) -> None:
    both = common_type(first, second)
    if both is None:
        return
    bits, is_signed = _SCALARS[first], pyarrow.types.is_signed_integer(first)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    values = data.draw(
        st.lists(st.one_of(st.integers(low, high), st.sampled_from([low, high, high - 1])))
    )
    found, bad = cast_exactly(pyarrow.array(values, first), both)
    assert not bad
    assert [int(value) for value in found.to_pylist()] == values


def schema(**columns: pyarrow.DataType) -> pyarrow.Schema:
    return pyarrow.schema(list(columns.items()))


def test_columns_keep_the_order_of_the_first_file() -> None:
    found = unified([("a", schema(x=i32, y=f32)), ("b", schema(y=f64, x=i64))], SchemaRules({}))
    assert found == schema(x=i64, y=f64)


def test_a_conflict_names_the_file_the_column_and_the_file_that_differs() -> None:
    files = [
        ("a.parquet", schema(x=i32)),
        ("b.parquet", schema(x=i32)),
        ("c.parquet", schema(x=text)),
    ]
    with pytest.raises(
        InputError,
        match=r"^c\.parquet: column 'x' has type string, .* int32 \(first: a\.parquet\); set types\.x",
    ):
        unified(files, SchemaRules({}))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (schema(x=i32, y=i32), schema(x=i32), "b has no column 'y', which a has"),
        (schema(x=i32), schema(x=i32, y=i32), "a has no column 'y', which b has"),
    ],
)
def test_a_missing_column_is_a_conflict_unless_it_may_be_null(
    first: pyarrow.Schema, second: pyarrow.Schema, expected: str
) -> None:
    with pytest.raises(InputError, match=expected):
        unified([("a", first), ("b", second)], SchemaRules({}))
    assert unified([("a", first), ("b", second)], SchemaRules({}, may_miss=True)) == schema(
        x=i32, y=i32
    )


def test_a_declared_type_replaces_those_of_the_files() -> None:
    files = [("a", schema(x=i64)), ("b", schema(x=f64)), ("c", schema(x=text))]
    assert unified(files, SchemaRules({"x": f64})) == schema(x=f64)
    with pytest.raises(
        InputError, match=r"a: column 'x' has type list<item: int64>, which cannot become date32"
    ):
        unified([("a", schema(x=pyarrow.list_(i64)))], SchemaRules({"x": pyarrow.date32()}))


def test_a_value_that_does_not_fit_is_null_and_named() -> None:
    found, bad = cast_exactly(pyarrow.array(["1", "x", None, "2.5", "3"]), i64)
    assert (found.to_pylist(), bad) == ([1, None, None, None, 3], [1, 3])
    assert cast_exactly(pyarrow.array([1, 1 << 53, (1 << 53) + 1]), f64)[1] == [2]


def test_the_ways_in_which_values_are_stored_do_not_matter() -> None:
    assert normalized(pyarrow.list_(pyarrow.dictionary(i32, text))) == pyarrow.list_(text)
    assert normalized(pyarrow.struct([("a", pyarrow.string_view())])) == pyarrow.struct(
        [("a", text)]
    )
