"""`python -m benchmarks [--passes N] [--size N]`: measures on real servers that it starts and ends itself.

Needs the programs of the development cluster (`make cluster` builds them), not the cluster itself.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

from benchmarks.burst.run import Order, run
from benchmarks.burst.sightings import TooSlow
from benchmarks.control_plane import NoPrograms
from benchmarks.programs import NotStarted

CHECKOUT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Run the benchmark; the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="How fast runs get their Jobs")
    parser.add_argument("--size", type=int, default=60, help="runs of a burst (60)")
    parser.add_argument("--passes", type=int, default=5, help="passes reported, after one to warm up (5)")
    words = parser.parse_args()
    # SIGTERM ends what was started, like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    binaries = Path(os.environ.get("INFERRUN_BIN") or CHECKOUT / ".devcluster" / "bin")
    order = Order(binaries, CHECKOUT / "build-output" / "bench-burst.json", size=words.size, passes=words.passes)
    try:
        run(order)
    except (NoPrograms, NotStarted, TooSlow) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; everything that was started has ended\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
