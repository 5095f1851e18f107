"""Workflows that do what workflow code must not do, for the test of the sandbox."""

import os
import random
from datetime import UTC, datetime

from temporalio import workflow

from inferrun.timestamps import utc_now


@workflow.defn
class ReadsTheClock:
    """Reads the wall clock itself."""

    @workflow.run
    async def run(self) -> str:
        """Its result differs in each replay."""
        return datetime.now(UTC).isoformat()


@workflow.defn
class ReadsTheClockThroughTheLibrary:
    """Reads the wall clock with a function of the library."""

    @workflow.run
    async def run(self) -> str:
        """Its result differs in each replay."""
        return utc_now().isoformat()


@workflow.defn
class DrawsANumber:
    """Uses the process's random numbers."""

    @workflow.run
    async def run(self) -> str:
        """Its result differs in each replay."""
        return str(random.random())  # noqa: S311 -- the point of the test


@workflow.defn
class ReadsTheEnvironment:
    """Reads an environment variable."""

    @workflow.run
    async def run(self) -> str:
        """Its result differs between workers."""
        return os.environ["HOME"]


ALL = (ReadsTheClock, ReadsTheClockThroughTheLibrary, DrawsANumber, ReadsTheEnvironment)
