"""`python -m campaigns.benchmarks burst|beside|scale|backfill|growth|runner`: starts real servers,
measures, and stops them.

Requires the programs of the development cluster (`make cluster` compiles them), but not the cluster
itself.
"""

import argparse
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from campaigns.benchmarks.burst import beside, costs
from campaigns.benchmarks.burst.job_watch import WaitTimeout
from campaigns.benchmarks.burst.krateo import KRATEO
from campaigns.benchmarks.burst.run import Options, run
from campaigns.benchmarks.control_plane import MissingPrograms
from campaigns.benchmarks.page import replace_section
from campaigns.benchmarks.processes import StartFailed
from campaigns.benchmarks.runner.longer import KILLED_SECONDS, measure_long
from campaigns.benchmarks.runner.report import page
from campaigns.benchmarks.runner.run import measure, measure_mild
from campaigns.benchmarks.scale.crowd import WAIT_SECONDS
from campaigns.benchmarks.scale.growth import Load
from campaigns.benchmarks.scale.run import ScaleOptions, run_backfill, run_growth, run_scale

CHECKOUT = Path(__file__).resolve().parents[2]
RESULTS = CHECKOUT / "build-output"


class ViolationsFound(Exception):
    """Something that is promised did not hold."""


def main() -> int:
    """Run a benchmark and return the exit code."""
    # Stop all processes on SIGTERM, as on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments = _parser().parse_args()
    try:
        arguments.run(arguments)
    except (MissingPrograms, StartFailed, WaitTimeout, ViolationsFound) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; all processes have been stopped\n")
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks", description="Benchmarks against real servers on this machine"
    )
    commands = parser.add_subparsers(required=True)
    burst = commands.add_parser(
        "burst", help="whole lives of runs, and of the same Jobs without runs"
    )
    burst.add_argument(
        "--size",
        type=int,
        help="number of runs in a burst (default: four passes of 60, three of 200)",
    )
    burst.add_argument(
        "--passes", type=int, default=4, help="number of passes with --size (default: 4)"
    )
    burst.set_defaults(run=_run_burst)
    pairs = commands.add_parser(
        "beside", help=f"what a run costs, beside Krateo's controller ({KRATEO}, a program)"
    )
    pairs.add_argument("--rounds", type=int, default=4, help="number of rounds (default: 4)")
    pairs.add_argument("--page", type=Path, help="file to which the report is written as a page")
    pairs.set_defaults(run=_run_beside)
    scale = commands.add_parser("scale", help="memory and delays with thousands of live runs")
    scale.add_argument(
        "--waiting", type=int, default=10_000, help="runs whose Pods wait (default: 10000)"
    )
    scale.add_argument(
        "--running", type=int, default=2_000, help="runs whose Pods run (default: 2000)"
    )
    scale.add_argument(
        "--keep", type=Path, help="folder for data and logs (default: a temporary one)"
    )
    scale.add_argument(
        "--wait", type=float, default=WAIT_SECONDS, help="seconds for each step (default: 7200)"
    )
    scale.set_defaults(run=_run_scale)
    backfill = commands.add_parser("backfill", help="a back-fill of a year of hours")
    backfill.add_argument("--runs", type=int, default=8760, help="number of runs (default: 8760)")
    backfill.add_argument(
        "--concurrency", type=int, default=50, help="runs at a time (default: 50)"
    )
    backfill.add_argument(
        "--keep", type=Path, help="folder for data and logs (default: a temporary one)"
    )
    backfill.add_argument(
        "--page", type=Path, help="page of the documentation whose section is replaced"
    )
    backfill.set_defaults(run=_run_backfill)
    growth = commands.add_parser(
        "growth", help="start, memory and CPU time with what gathers over months"
    )
    growth.add_argument(
        "--finished", type=int, default=50_000, help="finished runs (default: 50000)"
    )
    growth.add_argument(
        "--live", type=int, default=10_000, help="runs whose Pods wait (default: 10000)"
    )
    growth.add_argument(
        "--schedules", type=int, default=5_000, help="nightly schedules (default: 5000)"
    )
    growth.add_argument(
        "--namespaces", type=int, default=1_000, help="namespaces of these (default: 1000)"
    )
    growth.add_argument(
        "--keep", type=Path, help="folder for data and logs (default: a temporary one)"
    )
    growth.add_argument(
        "--page", type=Path, help="page of the documentation whose section is replaced"
    )
    growth.set_defaults(run=_run_growth)
    for command in (scale, growth):
        command.add_argument(
            "--temporal",
            choices=("development", "postgresql"),
            default="development",
            help="which server of Temporal",
        )
    runner = commands.add_parser("runner", help="the runner beside a load generator")
    runner.add_argument("--passes", type=int, default=3, help="number of passes (default: 3)")
    runner.add_argument(
        "--page",
        type=Path,
        help="file to which the report is written as a page of the documentation",
    )
    runner.add_argument(
        "--all", action="store_true", help="also long runs, kills and other clients (18 min more)"
    )
    runner.add_argument(
        "--killed-seconds",
        type=int,
        default=KILLED_SECONDS,
        help="length of the run that is killed",
    )
    runner.set_defaults(run=_run_runner)
    return parser


def _run_runner(arguments: argparse.Namespace) -> None:
    passes = list(measure(arguments.passes))
    mild = measure_mild() if arguments.all else None
    long = list(measure_long(killed_seconds=arguments.killed_seconds)) if arguments.all else []
    report = page(passes, mild=mild, long=long)
    print(report)
    if arguments.page:
        arguments.page.write_text(report)


def _run_burst(arguments: argparse.Namespace) -> None:
    options = Options(_binaries(), RESULTS / "bench-burst.json")
    if arguments.size:
        options = replace(options, bursts=((arguments.size, arguments.passes),))
    run(options)


def _run_beside(arguments: argparse.Namespace) -> None:
    report = costs.page(beside.measure(_binaries(), rounds=arguments.rounds))
    print(report)
    if arguments.page:
        arguments.page.write_text(report)


def _run_scale(arguments: argparse.Namespace) -> None:
    results = RESULTS / f"bench-scale-{arguments.temporal}.json"
    run_scale(
        ScaleOptions(
            _binaries(),
            results,
            waiting=arguments.waiting,
            running=arguments.running,
            postgresql=arguments.temporal == "postgresql",
            keep=arguments.keep,
            wait_seconds=arguments.wait,
        )
    )


def _run_backfill(arguments: argparse.Namespace) -> None:
    options = ScaleOptions(_binaries(), RESULTS / "bench-backfill.json", keep=arguments.keep)
    figures = run_backfill(options, runs=arguments.runs, concurrency=arguments.concurrency)
    print(figures.section())
    if arguments.page:
        page: Path = arguments.page
        page.write_text(
            replace_section(page.read_text(), name="backfill", content=figures.section())
        )
    if figures.problems:
        raise ViolationsFound("; ".join(figures.problems))


def _run_growth(arguments: argparse.Namespace) -> None:
    is_postgresql = arguments.temporal == "postgresql"
    options = ScaleOptions(
        _binaries(), RESULTS / "bench-growth.json", keep=arguments.keep, postgresql=is_postgresql
    )
    load = Load(arguments.finished, arguments.live, arguments.schedules, arguments.namespaces)
    content = run_growth(options, load)
    print(content)
    if arguments.page:
        page: Path = arguments.page
        page.write_text(replace_section(page.read_text(), name="growth", content=content))


def _binaries() -> Path:
    return Path(os.environ.get("INFERRUN_BIN") or CHECKOUT / ".devcluster" / "bin")


if __name__ == "__main__":
    sys.exit(main())
