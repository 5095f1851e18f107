"""A program that cannot reach its servers yet waits for them and says so, instead of exiting and
being restarted ever later."""

import asyncio

import pytest

from control.process import Probes, until_started
from inferrun.kube.errors import Forbidden, Unreachable
from inferrun.temporal.connection import TemporalUnavailable

ERRORS = [
    TemporalUnavailable("cannot connect to Temporal: connection refused"),
    Unreachable("no answer"),
]


class Started:
    is_ready = True

    async def run_until(self, stopped: asyncio.Event) -> None:
        await stopped.wait()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_a_server_that_cannot_be_reached_is_tried_again(error: Exception) -> None:
    probes, program = Probes(), Started()
    tries = 0

    async def start() -> Started:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise error
        return program

    assert await until_started(start, asyncio.Event(), probes, retry_seconds=0.01) is program
    assert (tries, probes.waits_for) == (3, str(error))


async def test_what_waiting_does_not_resolve_ends_the_program() -> None:
    async def start() -> Started:
        raise Forbidden("leases is forbidden")

    with pytest.raises(Forbidden):
        await until_started(start, asyncio.Event(), Probes(), retry_seconds=0.01)


async def test_a_program_that_waits_can_be_stopped() -> None:
    stopped, tries = asyncio.Event(), 0

    async def start() -> Started:
        nonlocal tries
        tries += 1
        stopped.set()
        raise ERRORS[0]

    assert await until_started(start, stopped, Probes(), retry_seconds=3600) is None
    assert tries == 1


def test_the_probes_tell_what_the_program_waits_for() -> None:
    probes = Probes(waits_for="cannot connect to Temporal: connection refused")
    assert probes.readiness() == (
        False,
        "not ready\ncannot connect to Temporal: connection refused",
    )
    probes.program = Started()
    assert probes.readiness() == (True, "ok\n")
