"""What inputs and outputs of files have in common: the formats, how CSV is written, the columns,
and the files of results. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field

from inferrun.fields.problems import Problem, invalid
from inferrun.fields.quantities import SIZE, amount
from inferrun.fields.type_names import TYPE_NAME
from inferrun.stores.declaration import INPUT, OUTPUT, End, Flag, Form, StorageSpec, Store
from inferrun.suggestions import did_you_mean


@dataclass(frozen=True, kw_only=True)
class DeclaredFormat:
    """What a built-in format can do, as far as storage objects depend on it."""

    is_written: bool = True
    """Whether results can be written in it."""

    is_typed: bool = False
    """Whether its columns have types."""

    may_lack_columns: bool = False
    """Whether a record or a file may lack a column."""

    compressions: tuple[str, ...] = ()
    """How its columns can be compressed; the first one is the default."""


FORMATS: Final = {
    "jsonl": DeclaredFormat(may_lack_columns=True),
    "json": DeclaredFormat(is_written=False, may_lack_columns=True),
    "csv": DeclaredFormat(),
    "openai": DeclaredFormat(),
    "parquet": DeclaredFormat(
        is_typed=True, may_lack_columns=True, compressions=("zstd", "snappy", "gzip", "lz4", "none")
    ),
    "arrow": DeclaredFormat(
        is_typed=True, may_lack_columns=True, compressions=("none", "zstd", "lz4")
    ),
    "orc": DeclaredFormat(is_written=False, is_typed=True, may_lack_columns=True),
    "files": DeclaredFormat(is_written=False, is_typed=True, may_lack_columns=True),
}
"""The formats of the built-in runner."""


def unknown_format(field: str, name: str, *, known: tuple[str, ...] = tuple(FORMATS)) -> Problem:
    """The problem of a format that the runner does not have."""
    return invalid(
        field,
        name,
        f"unknown format{did_you_mean(name, known)}; allowed are {', '.join(sorted(known))}",
    )


def unwritten_format(field: str, name: str) -> Problem:
    """The problem of an output in a format that is only read."""
    return invalid(
        field, name, "results cannot be written in it; set it to jsonl, csv, parquet or arrow"
    )


ColumnTypes = Annotated[
    dict[
        Annotated[str, Field(max_length=256)],
        Annotated[str, Field(min_length=1, max_length=1024), TYPE_NAME],
    ],
    Field(max_length=256),
]
"""Names of types, by the names of columns."""

_ONE: Final = 'must be one ASCII character, such as ";"; a tab is "\\t" in double quotes'
_CHARACTER: Final = r"[\x01-\x09\x0b\x0c\x0e-\x7e]"
"""Hive divides values by \\x01."""

_Sign = Annotated[str, Field(max_length=16), Form(allowed=_ONE, matches=f"({_CHARACTER})?")]

CsvEncoding = Literal[
    "utf-8", "iso-8859-1", "iso-8859-2", "iso-8859-15", "windows-1250", "windows-1251", "windows-1252", "windows-1253",
    "windows-1254", "koi8-r", "shift_jis", "gb18030", "big5", "euc-jp", "euc-kr",
]  # fmt: skip
"""Those in which a byte that is a quote, a comma or a line break is never a part of another
character."""


class CsvOptions(StorageSpec):
    """How the CSV files of an input are written."""

    delimiter: Annotated[str, Field(max_length=16), Form(allowed=_ONE, matches=_CHARACTER)] = ","
    """One ASCII character between values, such as ";", or "\\t" for a tab. Default: ","."""

    quote: _Sign = '"'
    """One ASCII character around values that contain delimiters, quotes or line breaks. Empty:
    values are never quoted. Default: the double quote."""

    escape: _Sign = ""
    """One ASCII character, such as a backslash, before a quote or itself within quotes. If values
    are never quoted, also before a delimiter or a line break, and in \\n, \\t, \\x41 and the like.
    Default: a quote within quotes is doubled."""

    escape_unquoted: Flag = False
    """Whether escape has that wider meaning although values may be quoted, as in files of MySQL and
    Python. Default: false."""

    skip_initial_space: Flag = False
    """Whether blanks after a delimiter are ignored. Default: false."""

    encoding: CsvEncoding = "utf-8"
    """Encoding of the text. Default: utf-8."""

    header: Flag | None = None
    """Whether the first record of each file names the columns. Default: true, unless columns is
    set. Without names, the columns are column_1, column_2 and so on."""

    columns: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=256)], ...], Field(max_length=1024)
    ] = ()
    """Names of the columns, in order. With header: true, they replace those in the files."""

    null_values: Annotated[
        frozenset[Annotated[str, Field(max_length=64)]], Field(max_length=64)
    ] = frozenset({""})
    """What stands for null, such as NA or \\N, where it is not quoted. Default: nothing between two
    delimiters. An empty value is always a missing number."""

    def problems(self, *, end: End, path: str) -> Iterator[Problem]:
        """Signs that are the same, and columns of one name."""
        yield from super().problems(end=end, path=path)
        signs = [self.delimiter, self.quote, self.escape]
        if twice := next((one for one in signs if one and signs.count(one) > 1), ""):
            yield invalid(path, twice, "delimiter, quote and escape must be different characters")
        if twice := next((one for one in self.columns if self.columns.count(one) > 1), ""):
            yield invalid(f"{path}.columns", twice, "each column needs a name of its own")


def _size(value: object) -> object:
    if (
        not isinstance(value, int | str)
        or isinstance(value, bool)
        or not re.fullmatch(SIZE, str(value))
    ):
        raise ValueError("must be a size such as 128Mi or 1Gi")
    return value


class OutputLayout(StorageSpec):
    """How the results of an output are divided into files."""

    part_size: Annotated[int | Annotated[str, Field(max_length=16)], BeforeValidator(_size)] = (
        "128Mi"
    )
    """Bytes that a file with the results of several chunks has at most, such as 1Gi. Default:
    128Mi."""

    single: Flag = False
    """Whether there is one file with all results, whatever its size. Default: false."""

    partitions: Literal["None", "Input"] = "None"
    """Input: the files are in nested folders such as dt=2026-11-23, those of the input's files.
    None (the default): they are in one folder."""

    compression: Literal["zstd", "snappy", "gzip", "lz4", "none"] | None = None
    """Compression of the columns in a table format. Default: zstd for parquet, none for arrow."""

    @property
    def part_bytes(self) -> int:
        """Bytes that a file of several chunks has at most."""
        return int(amount(self.part_size))

    def problems(self, *, end: End, path: str) -> Iterator[Problem]:
        """One file in several folders."""
        yield from super().problems(end=end, path=path)
        if self.partitions == "Input" and self.single:
            text = "one file cannot be in several folders; remove it or layout.partitions"
            yield invalid(f"{path}.single", "true", text)


class DatasetStorage(Store):
    """What an input says about its files and their columns."""

    csv: Annotated[CsvOptions | None, INPUT] = None
    """Input of the format csv: how the files are written."""

    types: ColumnTypes = Field(default_factory=dict)
    """Types of columns by their names, in a table format, such as prediction: double. Input:
    whatever the files have; a value that does not fit is an error of its record. Output: default:
    those of the input and of the model."""

    missing_columns: Annotated[Literal["Fail", "Null"], INPUT] = "Fail"
    """Input: what happens if a file, or a record of JSON lines, lacks a column that is used: the
    run or the record fails (Fail, the default), or the column is null there (Null)."""

    allow_empty: Annotated[Flag, INPUT] = False
    """Input: whether a run whose input has no records succeeds. Default: false."""

    format: Annotated[str, Field(min_length=1, max_length=32)] = "jsonl"

    @property
    def states_format(self) -> bool:
        """Whether the format is not only the default."""
        return "format" in self.model_fields_set

    def problems(self, *, end: End, path: str) -> Iterator[Problem]:
        """What the format cannot do."""
        yield from super().problems(end=end, path=path)
        if self.csv is not None and self.format != "csv":
            text = f"is for the format csv, not {self.format}; remove it, or set format: csv"
            yield invalid(f"{path}.csv", "set", text)
        form = FORMATS.get(self.format)
        if form is None:
            return
        if end == "output" and not form.is_written:
            yield unwritten_format(f"{path}.format", self.format)
        if end == "input" and self.types and not form.is_typed:
            yield invalid(f"{path}.types", "set", NO_TYPES)
        if self.missing_columns == "Null" and not form.may_lack_columns:
            yield invalid(f"{path}.missingColumns", "Null", ALL_COLUMNS)


NO_TYPES: Final = "the format has no typed columns; use parquet or arrow"
ALL_COLUMNS: Final = (
    "each record of the format has all columns; use parquet, arrow, orc, jsonl or json"
)
UNCOMPRESSED: Final = (
    "the files of this format are not compressed; use parquet or arrow, or remove it"
)


class FolderStorage(DatasetStorage):
    """Folders of files, as an input or an output."""

    shared = ("input", "output")
    keeps_results = True
    placeholders: ClassVar = {("path",): "path"}

    path: str

    partitions: Annotated[ColumnTypes, INPUT] = Field(default_factory=dict)
    """Input: types of the columns in the names of nested folders, such as dt=2026-11-23, by their
    names. Default: integers and dates where all values are such, otherwise strings."""

    format: Annotated[str, Field(min_length=1, max_length=32)] = "jsonl"
    """Format of the records: jsonl (one JSON value per line, the default), csv, parquet, arrow,
    openai (files of OpenAI's Batch API), json (input only: one array), orc (input only) or files
    (input only: each file is a record)."""

    flatten: Annotated[Flag, OUTPUT] = False
    """Output in a table format: whether each output of the model is a column of its own, instead of
    a member of the column prediction."""

    layout: Annotated[OutputLayout, OUTPUT] = OutputLayout()
    """Output: how the results are divided into files, when the run ends."""

    @property
    def root(self) -> str:
        """What to show before the path."""
        raise NotImplementedError

    def problems(self, *, end: End, path: str) -> Iterator[Problem]:
        """A compression that the format does not have."""
        yield from super().problems(end=end, path=path)
        form, name = FORMATS.get(self.format), self.layout.compression
        if form is not None and name and name not in form.compressions:
            allowed = (
                f"the format {self.format} has {', '.join(form.compressions)}"
                if form.compressions
                else UNCOMPRESSED
            )
            yield invalid(f"{path}.layout.compression", name, allowed)
