"""A back-fill: which runs of a schedule are started for times in the past, and how."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from inferrun.fields.resource_model import ResourceModel
from inferrun.fields.scalars import ResourceName
from inferrun.resources.interval import Moment


class BackfillOrder(StrEnum):
    """The order in which a back-fill starts its runs."""

    ASCENDING = "Ascending"
    DESCENDING = "Descending"


class BackfillSelection(StrEnum):
    """The nominal times for which a back-fill starts runs."""

    MISSING = "Missing"
    FAILED = "Failed"
    ALL = "All"


class Backfill(ResourceModel):
    """Runs of a schedule for times in the past. They are named and configured as the schedule would
    have created them, but its concurrencyPolicy, startingDeadlineSeconds and history limits do not
    apply to them."""

    schedule: ResourceName
    """Name of a scheduled InferenceRun in the same namespace."""

    start: Moment
    """The first scheduled time, such as 2026-11-01T00:00:00Z. Times are at or after it."""

    end: Moment
    """The last scheduled time. Times are at or before it; those in the future are left to the
    schedule."""

    concurrency: Annotated[int, Field(ge=1, le=100)] | None = None
    """Maximum number of runs at a time. Default: 1."""

    order: BackfillOrder | None = None
    """Ascending (default) starts the runs for the oldest times first, Descending those for the
    newest."""

    which: BackfillSelection | None = None
    """Missing (default) starts runs for times without a run. Failed repeats failed runs, All
    repeats all runs that have ended and starts missing ones; a run that is repeated is deleted
    first."""
