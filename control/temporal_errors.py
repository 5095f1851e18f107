"""Errors of the Temporal server that are part of normal operation."""

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.service import RPCError, RPCStatusCode


@contextmanager
def ignore_not_found() -> Iterator[None]:
    """Suppress NOT_FOUND: the workflow or schedule does not exist, or has already closed. Other errors propagate."""
    try:
        yield
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
