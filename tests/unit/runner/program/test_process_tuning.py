"""What is asked of the system for the whole process."""

import os
import subprocess
import sys

import pytest

THREADS = """
import os, threading
from runner.program.process_tuning import take_long_turns
take_long_turns()
threading.Thread(target=lambda: print(os.sched_getscheduler(threading.get_native_id()))).start()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such policy")
def test_threads_do_not_interrupt_each_other() -> None:
    found = subprocess.run([sys.executable, "-c", THREADS], stdout=subprocess.PIPE, check=True)
    assert int(found.stdout) == os.SCHED_BATCH


REFUSED = """
import os
def refuse(*given): raise PermissionError(1, "refused")
os.sched_setscheduler = refuse
from runner.program.process_tuning import take_long_turns
take_long_turns()
"""


def test_a_sandbox_may_refuse_it() -> None:
    subprocess.run([sys.executable, "-c", REFUSED], check=True)
