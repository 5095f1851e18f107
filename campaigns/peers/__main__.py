"""`python -m campaigns.peers`: measures the runner beside other clients of model servers."""

import argparse
import signal
import sys
from pathlib import Path

from campaigns.peers.peers import CLIENTS
from campaigns.peers.report import page
from campaigns.peers.run import Options, run
from campaigns.peers.works import WORKS
from inferrun.timestamps import utc_now
from tools.devcluster.errors import DevClusterError


def main() -> int:
    """Measure, print the report, and return the exit code."""
    # Stop all processes on SIGTERM, as on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given = _parser().parse_args()
    options = Options(
        given.passes,
        scale=given.scale,
        works=given.rows,
        clients=given.clients,
        with_faults=given.faults,
    )
    try:
        findings = run(options)
    except DevClusterError as error:
        sys.stderr.write(f"error: {error.message}\nfix:   {error.fix}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; all processes have been stopped\n")
        return 130
    before = given.page.read_text() if given.page and given.page.exists() else ""
    report = page(findings, now=utc_now(), before=before)
    print(report)
    if given.page:
        given.page.write_text(report)
    return 1 if findings.problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m campaigns.peers", description=__doc__)
    parser.add_argument("--passes", type=int, default=5, help="number of passes (default: 5)")
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="share of the records, such as 0.01 for a sample (default: 1)",
    )
    parser.add_argument(
        "--rows", nargs="+", default=(), choices=[work.key for work in WORKS], help="default: all"
    )
    parser.add_argument(
        "--clients",
        nargs="+",
        default=(),
        choices=[client.name for client in CLIENTS],
        help="default: all",
    )
    parser.add_argument(
        "--faults", action="store_true", help="also the runner with servers that have faults"
    )
    parser.add_argument("--page", type=Path, help="file to which the report is written")
    return parser


if __name__ == "__main__":
    sys.exit(main())
