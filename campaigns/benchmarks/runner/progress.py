"""Shows what is being measured: each step and each result at once, and a sign of life while a step
takes long."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SILENCE: Final = 15.0
"""Seconds after which a step that is still in progress is shown again."""

_started = time.monotonic()


def show(text: str) -> None:
    """Write one line."""
    sys.stdout.write(f"{time.monotonic() - _started:6.0f} s  {text}\n")
    sys.stdout.flush()


@contextmanager
def step(name: str) -> Iterator[None]:
    """Show the name of a step, and show it again from time to time until it ends."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(_SILENCE):
            show(f"... {name}")

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
