"""`python -m campaigns.faults`: injects each fault into each call with a side effect, and compares
the final states."""

import argparse
import asyncio
import sys
from pathlib import Path

from campaigns.benchmarks.page import replace_section
from campaigns.faults.injection import Fault
from campaigns.faults.matrix import FAULTS, Matrix, Options, execute
from campaigns.faults.page import folder_for, matrix_section, pairs_section, pauses_section


def main() -> int:
    """Execute the matrix; the exit code is 0 if every case ended as without its fault."""
    parser = argparse.ArgumentParser(prog="campaigns.faults", description=__doc__)
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        help="order of the cases, and which are in a sample (default: 1)",
    )
    parser.add_argument("--sample", type=int, help="number of cases (default: all)")
    parser.add_argument(
        "--per-call",
        type=int,
        default=1,
        help="scenarios in which each fault hits a call (default: 1)",
    )
    parser.add_argument(
        "--installations", type=int, default=3, help="installations of the product (default: 3)"
    )
    parser.add_argument(
        "--at-a-time", type=int, default=8, help="cases at a time for each (default: 8)"
    )
    parser.add_argument(
        "--pairs", type=int, default=0, help="play so many pairs of faults instead (default: 0)"
    )
    parser.add_argument("--only", nargs="*", default=(), help="scenarios (default: all)")
    parser.add_argument(
        "--faults",
        nargs="*",
        choices=[*FAULTS],
        default=(),
        help="faults, such as 'workflow paused' (default: all)",
    )
    parser.add_argument(
        "--keep", type=Path, help="folder for data and logs (default: a temporary one)"
    )
    parser.add_argument(
        "--page", type=Path, help="write a full matrix to this page of the documentation"
    )
    given = parser.parse_args()
    with folder_for("faults", given.keep) as folder:
        options = Options(
            folder,
            seed=given.seed,
            per_call=given.per_call,
            installations=given.installations,
            at_a_time=given.at_a_time,
            sample=given.sample,
            pairs=given.pairs,
            only=tuple(given.only),
            without=tuple(fault for fault in FAULTS if given.faults and fault not in given.faults),
            report=lambda line: print(line, flush=True),
        )
        matrix = asyncio.run(execute(options))
    is_of_pauses = given.faults == [Fault.PAUSED]
    if (
        given.page is not None
        and given.sample is None
        and not given.only
        and (is_of_pauses or not given.faults)
    ):
        page = given.page.read_text()
        name, section = (
            ("pairs", pairs_section(matrix)) if given.pairs else ("matrix", matrix_section(matrix))
        )
        name, section = ("pauses", pauses_section(matrix)) if is_of_pauses else (name, section)
        given.page.write_text(replace_section(page, name=name, content=section))
    return _conclude(matrix, is_partial=bool(given.only))


def _conclude(matrix: Matrix, *, is_partial: bool) -> int:
    reached = len(matrix.results) - len(matrix.unreached)
    sys.stdout.write(
        f"{len(matrix.results)} cases in {matrix.seconds:.0f} s, {reached} with their fault, "
        f"{len(matrix.problems)} ended in another state; {matrix.restarts} restarts\n"
    )
    for result in matrix.problems:
        sys.stdout.write(f"FAILED {result.case}\n  {result.problem}\n")
    for end in matrix.unexpected_ends:
        sys.stdout.write(f"FAILED unexpected exit: {end}\n")
    for site, does in sorted(matrix.unlisted):
        sys.stdout.write(f"FAILED not listed in campaigns/faults/calls.py: {does} by {site}\n")
    for site, does in sorted(matrix.unobserved if not is_partial else ()):
        sys.stdout.write(f"FAILED listed and never made: {does} by {site}\n")
    is_right = not (matrix.problems or matrix.unexpected_ends or matrix.unlisted)
    return 0 if is_right and (is_partial or not matrix.unobserved) else 1


if __name__ == "__main__":
    sys.exit(main())
