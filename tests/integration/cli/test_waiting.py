"""Waiting in a terminal: progress, Ctrl-C, and completion."""

import asyncio

from inferrun import wellknown
from inferrun.cli.reporting import CommandExit
from tests.integration.cli.run_space import CANCELLED, PROGRESS, SUCCESS, RunSpace, terminal

CTRL_C = "\x03"


async def test_a_terminal_shows_the_progress_until_the_run_has_ended(space: RunSpace) -> None:
    await space.create(
        "mine",
        status={"phase": "Pending", "reason": "ImagePulling", "message": "pulling the image"},
    )
    with terminal(*space.words("wait", "mine")) as shown:
        await asyncio.to_thread(shown.wait_for, "Pending (ImagePulling)")
        await space.report("mine", PROGRESS)
        await asyncio.to_thread(shown.wait_for, "250/1,000")
        for fact in (
            "25%",
            "10 failed",
            "50 records/s",
            "15s left",
            "8 requests at once",
            "attempt 2",
        ):
            assert fact in shown.text
        await space.report("mine", SUCCESS)
        assert await asyncio.to_thread(shown.end) == CommandExit.OK
        assert "run mine Succeeded in 20s: 990 of 1000 records predicted" in shown.text
        assert "output data/out" in shown.text


async def test_ctrl_c_detaches_and_the_run_goes_on(space: RunSpace) -> None:
    await space.create("mine", status=PROGRESS)
    with terminal(*space.words("wait", "mine")) as shown:
        await asyncio.to_thread(shown.wait_for, "250/1,000")
        shown.press(CTRL_C)
        await asyncio.to_thread(
            shown.wait_for, f"come back with: inferrun wait mine -n {space.name}"
        )
        assert await asyncio.to_thread(shown.end) == CommandExit.INTERRUPTED
    assert (
        wellknown.ANNOTATION_CANCEL_REQUESTED
        not in (await space.read("mine"))["metadata"]["annotations"]
    )


async def test_ctrl_c_twice_cancels_the_run_and_waits_for_its_end(space: RunSpace) -> None:
    await space.create("mine", status=PROGRESS)
    with terminal(*space.words("wait", "mine")) as shown:
        await asyncio.to_thread(shown.wait_for, "250/1,000")
        shown.press(CTRL_C)
        await asyncio.to_thread(shown.wait_for, "press Ctrl-C again")
        shown.press(CTRL_C)
        await asyncio.to_thread(shown.wait_for, "cancellation requested")
        annotations = (await space.read("mine"))["metadata"]["annotations"]
        assert annotations[wellknown.ANNOTATION_CANCEL_REQUESTED] == "true"
        await space.report("mine", {**PROGRESS, **CANCELLED})
        assert await asyncio.to_thread(shown.end) == CommandExit.INTERRUPTED
        assert "run mine Failed" in shown.text


async def test_ctrl_c_ends_top_without_a_traceback(space: RunSpace) -> None:
    await space.create("busy", status=PROGRESS)
    with terminal(*space.words("top")) as shown:
        await asyncio.to_thread(shown.wait_for, "250/1,000")
        shown.press(CTRL_C)
        assert await asyncio.to_thread(shown.end) == CommandExit.INTERRUPTED
        assert "Traceback" not in shown.text
