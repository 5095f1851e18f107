"""The report of the passes. Pure, except for the description of the machine."""

from collections.abc import Callable, Sequence

from benchmarks.machine import machine
from benchmarks.runner.run import CAPACITY, CONNECTIONS, RATES, SINGLE, Measured, Pass
from benchmarks.statistics import Spread, spread

TARGET_JSON = 0.95
TARGET_FAULTS = 0.9
TARGET_REQUEST = 100.0
TARGET_START = 0.2


def page(passes: Sequence[Pass]) -> str:
    """The report as a page of the documentation."""
    return "\n".join(
        [
            "# Speed of the runner",
            "",
            "`make bench-runner` measures the runner beside a load generator that sends the same requests to the same server.",
            "The generator does nothing else: it reads, encodes, decodes and writes nothing. The server handles",
            f"{CAPACITY:,.0f} rows per second, one request after the other. Server and client have one core each.",
            "",
            f"{len(passes)} passes, mean ± standard deviation (minimum to maximum); rows of four numbers, {RATES[0].rows} per",
            f"request, {RATES[0].records:,} per run, {CONNECTIONS} requests in flight, V2 over REST as JSON, JSON lines from and",
            "to files. Rates are counted by the server, from its first request to its last response. The byte code of the",
            "programs is compiled before, as in the image.",
            "",
            f"{machine()}.",
            "",
            "| server | load generator, rows/s | runner, rows/s | runner / generator | target |",
            "| --- | --- | --- | --- | --- |",
            *(_row(passes, one.name, target=TARGET_FAULTS if one.share else TARGET_JSON) for one in RATES),
            "",
            "| CPU time | load generator | runner | target |",
            "| --- | --- | --- | --- |",
            _cost_of_a_request(passes),
            f"| a run of 1,000 rows, mostly its start, s | | {spread([one.start for one in passes]).text()} | {TARGET_START} |",
            "",
        ]
    )


def _cost_of_a_request(passes: Sequence[Pass]) -> str:
    generator = _micro(passes, lambda one: one.generator_request)
    runner = _micro(passes, lambda one: one.runner_request)
    return f"| a request with one record ({SINGLE.records:,} of them), µs | {generator} | {runner} | {TARGET_REQUEST:.0f} |"


def _row(passes: Sequence[Pass], name: str, *, target: float) -> str:
    ratios = spread([one.runner[name].rate / one.generator[name].rate for one in passes])
    cells = [name, _rates(passes, lambda one: one.generator[name]), _rates(passes, lambda one: one.runner[name])]
    return f"| {' | '.join(cells)} | {ratios.text()} | {target} |"


def _rates(passes: Sequence[Pass], choose: Callable[[Pass], Measured]) -> str:
    return _of(passes, lambda one: choose(one).rate).text(digits=0)


def _micro(passes: Sequence[Pass], choose: Callable[[Pass], float]) -> str:
    return _of(passes, lambda one: choose(one) * 1e6).text(digits=0)


def _of(passes: Sequence[Pass], choose: Callable[[Pass], float]) -> Spread:
    return spread([choose(one) for one in passes])
