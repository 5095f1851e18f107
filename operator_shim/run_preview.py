"""New runs do not wait for the list of all runs, which takes a minute with tens of thousands: until
it is complete, another request shows those that have no phase, and a watch what becomes of them.

What is shown is cached early. The list and its watch remain what decides.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Final

from control.survival import surviving
from inferrun.kube.client import KubeClient
from inferrun.kube.decoding import Page
from inferrun.kube.errors import Invalid, PageTooLarge
from inferrun.kube.objects import RUNS, Object

SELECT_NEW: Final = "status.phase="
"""The field selector of the runs that no shim has accepted."""

SELECT_UNFINISHED: Final = "status.phase!=,status.phase!=Succeeded,status.phase!=Failed"
"""That of the runs that were accepted and have not ended."""

PREVIEW_PAUSE: Final = 1.0
"""Seconds after which new runs are looked for again when their watch has ended."""


class RunPreview:
    """The new runs of a namespace, or of all. Run it as a task until all runs are listed."""

    def __init__(
        self,
        api: KubeClient,
        place: str | None,
        *,
        show: Callable[[Object], None],
        is_room_limited: Callable[[], bool],
    ) -> None:
        """`show` is called with each version that is seen. `is_room_limited`: whether only so many
        runs of a namespace may be active."""
        self._api = api
        self._place = place
        self._show = show
        self._is_room_limited = is_room_limited
        self._shown: set[str] = set()
        """The UIDs of new runs that were shown."""

        self._is_counted: dict[str, bool] = {}
        """Whether the unfinished runs of a namespace were shown, which take its room."""

    async def run(self) -> None:
        """Ends only if new runs cannot be selected: the API server has an older definition, or
        thousands have no phase."""
        while True:
            with surviving("the search for new runs", about=self._place):
                try:
                    page = await self._select(SELECT_NEW, self._place)
                except (Invalid, PageTooLarge):
                    return
                for run in page.items:
                    await self._show_new(run)
                await self._follow(page.version)
            await asyncio.sleep(PREVIEW_PAUSE)

    async def _follow(self, version: str) -> None:
        """Show the runs that are created, and what becomes of those that were shown."""
        watch = self._api.watch(RUNS, self._place, version=version)
        async with aclosing(watch):  # type: ignore[type-var]  # a generator, typed by its interface
            async for kind, run in watch:
                is_known = run["metadata"]["uid"] in self._shown
                if kind == "ADDED" or (kind == "MODIFIED" and is_known):
                    await self._show_new(run)

    async def _show_new(self, run: Object) -> None:
        """Show a run, unless it is not known how much room its namespace has."""
        namespace = run["metadata"]["namespace"]
        if self._is_room_limited() and namespace not in self._is_counted:
            self._is_counted[namespace] = False
            with suppress(PageTooLarge):
                for other in (await self._select(SELECT_UNFINISHED, namespace)).items:
                    self._show(other)
                self._is_counted[namespace] = True
        if self._is_counted.get(namespace, True):
            self._shown.add(run["metadata"]["uid"])
            self._show(run)

    async def _select(self, selector: str, place: str | None) -> Page:
        """The runs that a field selector selects, from the API server's memory: it may be a moment
        behind etcd, from which it would have to read all runs. Raises KubeError.
        """
        return await self._api.page(RUNS, place, resourceVersion="0", fieldSelector=selector)
