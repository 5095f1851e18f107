"""What the tests of a store need besides the store: its backend, which they fill and inspect, and
the folders of a Pod."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final, Never, Self, TypeVar, cast

import pytest

from inferrun import formats
from inferrun.formats.record_texts import json_texts
from inferrun.plugins import (
    Contract,
    Delivery,
    Fault,
    Limits,
    OpenInput,
    OpenOutput,
    OutputStore,
    RecordFormat,
    Records,
    Source,
    StorageObject,
    StoreContext,
)

T = TypeVar("T")

RUN: Final = "5be07ada-5fe0-4c9e-a8bc-aaae67d8d344"
"""The id of a run."""

NO_LIMITS: Final[Mapping[str, object]] = {}


@dataclass(frozen=True, slots=True)
class LocalServices:
    """The services that need no runner: one try, and texts of records."""

    async def with_retries(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Call `attempt` once."""
        try:
            return await attempt()
        except Fault as fault:
            raise fault.error from fault

    async def check_address(self, url: str) -> None:
        """Allow all servers."""

    def json_texts(self, records: Records) -> Sequence[bytes]:
        """Return one JSON text per record."""
        return json_texts(records)

    def _of_the_runner(self, *_: object, **_more: object) -> Never:
        raise NotImplementedError(
            "only the runner has this service: override `context` to give the store one of your own"
        )

    http_client = spooled = used_columns = block_of = output_store = _of_the_runner


def store_context(
    folder: Path,
    *,
    run: str = RUN,
    pod: str = "pod-1",
    limits: Mapping[str, object] = NO_LIMITS,
) -> StoreContext:
    """Return the context of a store in a Pod of a run, whose mounts are in the folder."""
    places = {name: folder / name for name in ("input", "output", "endpoints", "tmp")}
    for place in places.values():
        place.mkdir(exist_ok=True)
    return StoreContext(
        contract=Contract(job_id=run, run_id=run, job_name=f"inf-run-{run[:8]}"),
        limits=Limits.model_validate(
            {"retry_seconds": 0, "allowed_addresses": "127.0.0.1", **limits}
        ),
        services=LocalServices(),
        format_named=_format_named,
        input_dir=places["input"],
        output_dir=places["output"],
        endpoints_dir=places["endpoints"],
        spool_dir=places["tmp"],
        pod_uid=pod,
    )


def _format_named(name: str, field: str) -> RecordFormat:
    found = {one.name: one for one in (*entry_points(group=formats.GROUP), *formats.BUILT_IN)}
    assert name in found, f"{field}: no package provides the format {name!r}"
    return cast("RecordFormat", found[name].load())


def values_in(records: Records) -> list[object]:
    """Return records or predictions as values."""
    return [json.loads(text) for text in json_texts(records)]


def loaded(group: str, name: str) -> object:
    """Return what a package declares as an entry point of that name."""
    points = entry_points(group=group, name=name)
    assert points, f"no package declares the entry point {name!r} in {group}; is it installed?"
    return next(iter(points)).load()


class StoreWorld:
    """A store with its backend."""

    pytestmark = pytest.mark.asyncio

    label: str
    """The label under which the package declares the store as an entry point."""

    right: StorageObject
    """A storage object."""

    wrong: StorageObject
    """A storage object that the store must reject."""

    folder: Path
    """Contains the mounts of the Pods."""

    @pytest.fixture
    def world(self, tmp_path: Path) -> Self:
        """The store, and a new folder for each test."""
        self.folder = tmp_path
        return self

    def context(
        self, *, run: str = RUN, pod: str = "pod-1", limits: Mapping[str, object] = NO_LIMITS
    ) -> StoreContext:
        """Return the context in a Pod of a run."""
        return store_context(self.folder, run=run, pod=pod, limits=limits)

    def load(self, group: str) -> object:
        """Return the opener of the label in a group of entry points."""
        return loaded(group, self.label)


class InputWorld(StoreWorld):
    """An input store with its backend."""

    has_fixed_chunks = False
    """Whether the chunks are those of the backend, and do not depend on `limits.chunk`."""

    def fill(self, rows: Sequence[Sequence[object]]) -> None:
        """Store these rows in the backend, in place of those that are there."""
        raise NotImplementedError

    def open(self, **limits: int) -> AbstractAsyncContextManager[Source]:
        """Open the store as a Pod does."""
        return self._opener(self.right, self.context(limits=limits))

    def open_wrong(self) -> AbstractAsyncContextManager[Source]:
        """Open the store with the invalid object."""
        return self._opener(self.wrong, self.context())

    @property
    def _opener(self) -> OpenInput:
        return cast("OpenInput", self.load("inferrun.stores.input"))


class OutputWorld(StoreWorld):
    """An output store with its backend."""

    delivery: Delivery = "AtLeastOnce"
    """What the store must say that it guarantees."""

    def stored(self, run: str) -> list[object]:
        """Return the predictions of a run in the backend, in the order of the input; any other
        value for a failed record."""
        raise NotImplementedError

    def open(
        self, *, run: str = RUN, pod: str = "pod-1"
    ) -> AbstractAsyncContextManager[OutputStore]:
        """Open the store as a Pod of a run does."""
        return self._opener(self.right, self.context(run=run, pod=pod))

    def open_wrong(self) -> AbstractAsyncContextManager[OutputStore]:
        """Open the store with the invalid object."""
        return self._opener(self.wrong, self.context())

    @property
    def _opener(self) -> OpenOutput:
        return cast("OpenOutput", self.load("inferrun.stores.output"))
