"""`python -m benchmarks [--size N] [--passes N]`: starts real servers, measures, and stops them.

Requires the programs of the development cluster (`make cluster` compiles them), but not the cluster itself.
"""

import argparse
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.burst.job_watch import WaitTimeout
from benchmarks.burst.run import Options, run
from benchmarks.control_plane import MissingPrograms
from benchmarks.processes import StartFailed

CHECKOUT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure whole lives of runs")
    parser.add_argument("--size", type=int, help="number of runs in a burst (default: four passes of 60, two of 200)")
    parser.add_argument("--passes", type=int, default=4, help="number of passes with --size (default: 4)")
    arguments = parser.parse_args()
    # Stop all processes on SIGTERM, as on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    binaries = Path(os.environ.get("INFERRUN_BIN") or CHECKOUT / ".devcluster" / "bin")
    options = Options(binaries, CHECKOUT / "build-output" / "bench-burst.json")
    if arguments.size:
        options = replace(options, bursts=((arguments.size, arguments.passes),))
    try:
        run(options)
    except (MissingPrograms, StartFailed, WaitTimeout) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; all processes have been stopped\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
