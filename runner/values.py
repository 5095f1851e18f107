"""The values that travel between the stages, and between the seams and those who fill them. No I/O here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from inferrun.runner_report import Output

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Row: TypeAlias = list[float]
"""One record's numbers; integers stay integers, so that they are sent as they were written."""

CustomId: TypeAlias = "str | int | None"


@dataclass(frozen=True, slots=True)
class Records:
    """Consecutive records of the input: one batch. All rows have the same width, which is at least 1."""

    first: int
    """Index of the first record in the whole input, from 0."""

    rows: list[Row]

    ids: Sequence[CustomId] = ()
    """One id per row where the input carries ids, else empty."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A deterministic, re-readable range of the input: what is committed, and resumed, as a whole."""

    index: int
    """Number of the chunk, from 0, without gaps."""

    unit: int
    """Which of the input's units (files, tables, …) the range lies in, from 0."""

    start: int
    end: int
    """The range, end excluded, in the input store's own measure; for files bytes."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What every attempt of a run must agree on: which input it is, how it is cut, how many records it holds."""

    fingerprint: str
    chunk_size: int
    total: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A committed run: how many records it holds and where they are."""

    total: int
    completed: int
    failed: int
    output: Output


@dataclass(frozen=True, slots=True)
class Memory:
    """What earlier attempts of the same run left in the output; empty for a first attempt."""

    cut: Cut | None = None
    committed_chunks: int = 0
    """Chunks 0 up to this number, excluded, are committed: attempts commit in order, so there are no holes."""

    committed_records: int = 0
    finished: Finished | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """Records so far; `completed + failed` never exceeds `total`."""

    total: int
    completed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file as it was found: a later look that differs means that the input changed."""

    name: str
    size: int
    modified_ns: int = 0
