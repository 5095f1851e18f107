"""The report of the passes. Pure, except for the description of the machine."""

from collections.abc import Callable, Sequence

from campaigns.benchmarks.machine import machine
from campaigns.benchmarks.runner.finding import MISSED, Finding
from campaigns.benchmarks.runner.programs import Measured
from campaigns.benchmarks.runner.run import Pass
from campaigns.benchmarks.runner.scenarios import (
    BRISK,
    CALM,
    COLUMNS,
    FAST,
    GRPC,
    MILD,
    RATES,
    SINGLE,
    WIDE,
    Scenario,
)
from campaigns.benchmarks.statistics import Spread, spread

TARGET_REQUEST = 250.0
TARGET_START = 0.5
TARGETS_WIDE = (1.5, 1.25)


def page(passes: Sequence[Pass], *, mild: Pass | None = None, long: Sequence[Finding] = ()) -> str:
    """The report as a page of the documentation; `mild` and `long` are measured only with
    `--all`."""
    parts = (
        _introduction(passes),
        _rates_part(passes),
        _cpu_part(passes),
        _tuning_part(passes, mild),
    )
    return "\n".join(
        [*(line for part in parts for line in part), *_findings_part(passes, long), ""]
    )


def _introduction(passes: Sequence[Pass]) -> list[str]:
    return [
        "# Speed of the runner",
        "",
        "`make bench-runner` measures the runner beside a load generator that sends the same requests to the same server.",
        "The generator does nothing else: it reads, encodes, decodes and writes nothing. Rates are counted by the server, from",
        "its first request to its last response. Server and client have one core each. The byte code of the programs is",
        "compiled before, as in the image.",
        "",
        _counted(passes),
        "",
        f"{machine()}.",
        "",
    ]


def _counted(passes: Sequence[Pass]) -> str:
    if len(passes) == 1:
        return "Each figure is one measurement."
    return f"{len(passes)} passes, mean ± standard deviation (minimum to maximum)."


def _rates_part(passes: Sequence[Pass]) -> list[str]:
    return [
        "## The fastest server",
        "",
        f"It handles {FAST:,.0f} rows of four numbers per second ({GRPC:,.0f} over gRPC), one request after the other.",
        f"JSON: {RATES[0].rows:,} rows per request, JSON lines from and to files, {RATES[0].concurrency} requests in flight.",
        f"gRPC: {COLUMNS.rows:,} rows per request, Parquet as input and output, the concurrency that the runner finds.",
        "",
        "| server | load generator, rows/s | runner, rows/s | runner / generator | target |",
        "| --- | --- | --- | --- | --- |",
        *(_row(passes, one) for one in (*RATES, COLUMNS)),
        "",
    ]


def _cpu_part(passes: Sequence[Pass]) -> list[str]:
    start = spread([one.start for one in passes])
    return [
        "## CPU time",
        "",
        "| CPU time | load generator | runner | target |",
        "| --- | --- | --- | --- |",
        _cost_of_a_request(passes),
        f"| a run of 1,000 rows, mostly its start, s | | {_at_most(start, TARGET_START, digits=2)} | {TARGET_START} |",
        *(
            f"| JSON, {scenario.name}, relative to the bare stages (read, encode, send, decode, write) | 1 | "
            f"{_at_most(spread([one.cost[scenario.name] for one in passes]), target, digits=2)} | {target} |"
            for scenario, target in zip(WIDE, TARGETS_WIDE, strict=True)
        ),
        *(
            f"| JSON, {scenario.name}, relative to stages that take a block of lines at a time, undecoded | 1 | "
            f"{spread([one.cost_of_blocks[scenario.name] for one in passes]).text()} | |"
            for scenario in WIDE
        ),
        *(
            f"| JSON, {scenario.name}, a row, µs | | {_of_row(passes, scenario.name)} | |"
            for scenario in WIDE
        ),
        "",
        "The bare stages handle each line by itself, check nothing and write one file. The runner handles blocks of lines, so it",
        "may take less time than they do. It does more, too: it counts the records, checks every number, computes checksums, and",
        "makes each of its 128 chunks durable.",
        "",
    ]


def _of_row(passes: Sequence[Pass], name: str) -> str:
    bare = _micro(passes, lambda one: one.bare_row[name], digits=2)
    return f"{_micro(passes, lambda one: one.row[name], digits=2)}; bare stages {bare}"


def _tuning_part(passes: Sequence[Pass], mild: Pass | None) -> list[str]:
    few = [mild] if mild else []
    tuned = [one for one in passes if CALM[0].name in one.runner]
    return [
        "## The concurrency that the runner finds",
        "",
        "The runner begins with four requests at a time. The load generator has two connections more than the server has workers,",
        "or as many as the server admits. Both meet the same share of faults: 503, lost connections, or responses that take ten",
        "times as long. The rate contains the time in which the runner finds the concurrency. Ten rows per request; with OpenAI's",
        f"API one. {_counted(tuned)}",
        "",
        "| server | load generator, records/s | runner, records/s | runner / generator | target | rejected |",
        "| --- | --- | --- | --- | --- | --- |",
        *(f"{_row(tuned, one)} {_rejected(tuned, one)} |" for one in (*BRISK, *CALM)),
        *(f"{_row(few, one)} {_rejected(few, one)} |" for one in MILD if few),
        "",
    ]


def _findings_part(passes: Sequence[Pass], long: Sequence[Finding]) -> list[str]:
    """Those of every pass, then those that were measured once."""
    repeated = [
        (found, [one.findings[at].value for one in passes])
        for at, found in enumerate(passes[0].findings)
    ]
    measured = [(found, spread(values)) for found, values in repeated]
    lines = [
        f"| {found.name} | {value.text()}{found.mark(value.mean)} | {found.goal} |"
        for found, value in measured
    ]
    lines += [
        f"| {found.name} | {found.value:.3f}{found.mark(found.value)} | {found.goal} |"
        for found in long
    ]
    notes = [
        "S3 is versitygw over a folder. Long runs, which `BENCH=--all` adds, are measured once. Speed-ups are those of whole",
        "programs with MLServer and scikit-learn, each with its defaults apart from the rows per request. MLServer takes about",
        "1 ms of CPU time for a request, with 64 rows as well as with 1,000, over REST as well as over gRPC. Finding a rejected",
        "record among 1,000 takes about 13 requests, most of which have few records.",
    ]
    return [
        "## Other measurements",
        "",
        *notes,
        "",
        "| measured | value | target |",
        "| --- | --- | --- |",
        *lines,
    ]


def _rejected(passes: Sequence[Pass], scenario: Scenario) -> str:
    return f"{100 * spread([one.runner[scenario.name].rejected for one in passes]).mean:.2f} %"


def _cost_of_a_request(passes: Sequence[Pass]) -> str:
    generator = _micro(passes, lambda one: one.generator_request)
    runner = _at_most(_of(passes, lambda one: one.runner_request * 1e6), TARGET_REQUEST, digits=0)
    return f"| a request with one record ({SINGLE.requests:,} of them), µs | {generator} | {runner} | {TARGET_REQUEST:.0f} |"


def _row(passes: Sequence[Pass], scenario: Scenario) -> str:
    name = scenario.name
    ratios = spread([one.runner[name].rate / one.generator[name].rate for one in passes])
    cells = [
        name,
        _rates(passes, lambda one: one.generator[name]),
        _rates(passes, lambda one: one.runner[name]),
    ]
    mark = MISSED if ratios.mean < scenario.target else ""
    return f"| {' | '.join(cells)} | {ratios.text()}{mark} | {scenario.target} |"


def _at_most(value: Spread, target: float, *, digits: int) -> str:
    return value.text(digits=digits) + (MISSED if value.mean > target else "")


def _rates(passes: Sequence[Pass], choose: Callable[[Pass], Measured]) -> str:
    return _of(passes, lambda one: choose(one).rate).text(digits=0)


def _micro(passes: Sequence[Pass], choose: Callable[[Pass], float], *, digits: int = 0) -> str:
    return _of(passes, lambda one: choose(one) * 1e6).text(digits=digits)


def _of(passes: Sequence[Pass], choose: Callable[[Pass], float]) -> Spread:
    return spread([choose(one) for one in passes])
