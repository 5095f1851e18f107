"""What is asked of the system for the whole process."""

import os
import subprocess
import sys

import pytest

from inferrun_runner.program.process_tuning import use_batch_scheduling

EXCHANGE = """
import asyncio, os
import ry
from inferrun_runner.program.process_tuning import use_batch_scheduling

async def main():
    try:
        await ry.Client().fetch("http://127.0.0.1:1")
    except ry.ReqwestError:
        pass
    threads = {}
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/comm") as name:
            threads[name.read().strip()] = os.sched_getscheduler(int(thread))
    assert any("tokio" in name for name in threads), threads
    assert set(threads.values()) == {os.SCHED_BATCH}, threads

use_batch_scheduling()
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such policy")
def test_the_threads_of_the_http_client_do_not_preempt_python() -> None:
    subprocess.run([sys.executable, "-c", EXCHANGE], check=True)


def test_a_sandbox_may_refuse_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int]()

    def refuse(process: int, *_: object) -> None:
        asked.append(process)
        raise PermissionError(1, "refused")

    monkeypatch.setattr(os, "sched_setscheduler", refuse, raising=False)
    monkeypatch.setattr(os, "SCHED_BATCH", 3, raising=False)
    monkeypatch.setattr(os, "sched_param", int, raising=False)
    use_batch_scheduling()
    assert asked == [0]
