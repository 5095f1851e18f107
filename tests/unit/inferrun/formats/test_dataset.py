"""Which files of a place are read, which are not and why, and the columns that their paths have."""

import pytest

from inferrun.formats import dataset
from inferrun.formats.dataset import Dataset, ListedFile, find, partitions_of, split_pattern
from inferrun.formats.partitions import PartitionValue
from inferrun.plugins import InputError

SUFFIXES = (".parquet", ".pq")


def found(*names: str, pattern: str = "", size: int = 1) -> Dataset:
    return find(
        [ListedFile(name, size, "tag") for name in names],
        pattern=pattern,
        suffixes=SUFFIXES,
        field="input.s3.path",
    )


def names_in(one: Dataset) -> list[str]:
    return [item.name for item in one.objects]


def skipped(one: Dataset) -> dict[str, tuple[str, ...]]:
    return {item.reason: item.names for item in one.skipped}


def test_a_folder_is_read_with_its_partitions() -> None:
    one = found(
        "b.parquet",
        "a.pq",
        "dt=2/x.parquet",
        "dt=1/hour=03/y.parquet",
        "old/z.parquet",
        "old/dt=1/z.parquet",
    )
    assert names_in(one) == ["a.pq", "b.parquet", "dt=1/hour=03/y.parquet", "dt=2/x.parquet"]
    assert skipped(one) == {"NestedFolder": ("old",)}
    assert [item.partition for item in one.objects] == [
        {},
        {},
        {"dt": "1", "hour": "03"},
        {"dt": "2"},
    ]


def test_what_is_not_read_has_a_reason() -> None:
    one = found(
        "_SUCCESS",
        "_x.parquet",
        ".crc/a.parquet",
        "dt=1/_temporary/a.parquet",
        "A.PARQUET",
        "notes.txt",
        "a.parquet.gz",
    )
    assert names_in(one) == ["a.parquet.gz"]
    assert skipped(one) == {
        "OtherExtension": ("notes.txt",),
        "OtherCase": ("A.PARQUET",),
        "Hidden": (".crc", "_SUCCESS", "_x.parquet", "dt=1/_temporary"),
    }
    assert skipped(found("a.parquet", size=0)) == {"Empty": ("a.parquet",)}


@pytest.mark.parametrize(
    ("names", "pattern", "read"),
    [
        (["part-0.json", "part-1.json.gz", "_SUCCESS"], "", ["part-0.json", "part-1.json.gz"]),
        (["000000_0", "dt=1/000001_0", ".hive-staging/x"], "", ["000000_0", "dt=1/000001_0"]),
        (["a.txt", "a.sql"], "", []),
        (["a.txt", "a.sql"], "*.txt", ["a.txt"]),
        (["a.parquet", "a.json"], "", ["a.parquet"]),
        (["A.PARQUET"], "", ["A.PARQUET"]),
        (["part-0.json.bz2"], "", []),
        (["old/a.json"], "", []),
    ],
)
def test_a_stated_format_wins_over_the_extension(
    names: list[str], pattern: str, read: list[str]
) -> None:
    files = [ListedFile(name, 1, "tag") for name in names]
    one = find(files, pattern=pattern, suffixes=SUFFIXES, field="path", is_stated=True)
    assert names_in(one) == read
    assert names_in(find(files, pattern=pattern, suffixes=SUFFIXES, field="path")) == [
        name for name in read if name.endswith(".parquet")
    ]


def test_files_of_several_extensions_are_named_with_what_to_set() -> None:
    one = found("a.txt", "a.sql")
    with pytest.raises(
        InputError,
        match=r"has no \*.parquet or \*.pq file; it has 2; to read .* set format, and a pattern",
    ):
        one.checked(suffixes=SUFFIXES, allow_empty=False, where="folder 'd' has", contents="has 2")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.parquet", ["a.parquet"]),
        ("*/*.parquet", ["x/b.parquet", "y/c.parquet"]),
        ("**", ["a.parquet", "x/b.parquet", "x/z/d.parquet", "y/c.parquet"]),
        ("**/*.parquet", ["a.parquet", "x/b.parquet", "x/z/d.parquet", "y/c.parquet"]),
        ("x/**", ["x/b.parquet", "x/z/d.parquet"]),
        ("?/[bc].parquet", []),
    ],
)
def test_a_pattern_reads_what_it_matches(pattern: str, expected: list[str]) -> None:
    one = found(
        "a.parquet", "x/b.parquet", "y/c.parquet", "x/z/d.parquet", "note.txt", pattern=pattern
    )
    assert names_in(one) == expected


def test_a_path_is_divided_before_the_first_wildcard() -> None:
    assert split_pattern("in/rows") == ("in/rows", "")
    assert split_pattern("in/dt=2026-*/*.parquet") == ("in", "dt=2026-*/*.parquet")
    assert split_pattern("**/x.parquet") == ("", "**/x.parquet")


def test_an_object_that_stands_for_a_folder_is_ignored() -> None:
    files = [ListedFile("dt=1", 0), ListedFile("dt=1/a.parquet", 1)]
    one = find(files, pattern="", suffixes=SUFFIXES, field="input.s3.path")
    assert (names_in(one), one.skipped) == (["dt=1/a.parquet"], ())
    assert skipped(found("dt=1", "dt=1/a.parquet")) == {"OtherExtension": ("dt=1",)}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (("1", "-20", "0"), "int64"),
        (("1", "__HIVE_DEFAULT_PARTITION__"), "int64"),
        (("01", "2"), "string"),
        (("2026-11-23", "2024-02-29"), "date32"),
        (("2026-11-23", "2026-02-30"), "string"),
        (("1" * 30,), "string"),
        (("__HIVE_DEFAULT_PARTITION__",), "string"),
    ],
)
def test_the_type_of_a_partition_is_that_of_all_its_values(
    values: tuple[str, ...], kind: str
) -> None:
    one = found(*(f"k={value}/a.parquet" for value in values))
    assert {columns["k"].kind for columns in partitions_of(one.objects, {})} == {kind}


def test_values_are_decoded_and_types_can_be_declared() -> None:
    one = found("team=a%2Fb/x.parquet", "y.parquet")
    assert [columns["team"] for columns in partitions_of(one.objects, {"team": "binary"})] == [
        PartitionValue("a/b", "binary"),
        PartitionValue(None, "binary"),
    ]


def test_two_values_of_a_column_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"input\.s3\.path: k=1/k=2/a\.parquet has two values of the column 'k'"
    ):
        found("k=1/k=2/a.parquet")


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        ("_delta_log/00000000000000000000.json", "a Delta table (use the label delta)"),
        (".hoodie/hoodie.properties", "a Hudi table"),
        ("dt=1/.hoodie_partition_metadata", "a partition of a Hudi table"),
        ("_spark_metadata/0", "the output of a Spark stream"),
    ],
)
def test_a_folder_whose_log_says_which_files_count_is_refused(log: str, kind: str) -> None:
    with pytest.raises(InputError, match=r"such as \*\.parquet reads all that are there") as error:
        found("dt=1/a.parquet", log)
    assert kind in str(error.value)
    assert names_in(found("dt=1/a.parquet", log, pattern="**/*.parquet")) == ["dt=1/a.parquet"]


def test_too_many_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "MAX_OBJECTS", 2)
    with pytest.raises(
        InputError, match="it has 3 files, at most 2 can be read by a run; use a narrower path"
    ):
        found("a.parquet", "b.parquet", "c.parquet")
