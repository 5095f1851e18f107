"""Scene 9: typed data in, one typed table out: a partitioned dataset through a language model, and
images through a model."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from examples.demo import runs
from examples.demo.terminal import Terminal

TITLE = "Typed data in, one typed table out"
STORY = """
A dataset in S3 has a folder of Parquet files per day. Its columns become prompts of a language model, and the answers, which follow
a JSON schema, columns of one Parquet file. Then images in a folder become the tensor [n, 3, 8, 8] that another model requires.
"""
DAYS = ("2026-11-21", "2026-11-22", "2026-11-23")
TICKETS_PER_DAY = 40
IMAGES = 300
RECOGNIZED = 0.9
"""Share of the images that the model must recognize. It knows them: it was trained on them in their
original size."""

S3CMD = f"kubectl exec -i -n {runs.NAMESPACE} deploy/s3 -- s3cmd"
FILES = f"kubectl exec -n {runs.NAMESPACE} deploy/files --"
SHOW = ".venv/bin/python examples/show_table.py"
TICKET_TYPES = {
    "dt": pa.date32(),
    "id": pa.int64(),
    "opened": pa.timestamp("us", "UTC"),
    "price": pa.decimal128(9, 2),
    "team": pa.string(),
    "urgent": pa.bool_(),
}


def play(terminal: Terminal) -> None:
    _sort_tickets(terminal)
    terminal.explain("Images of handwritten digits, in a folder of a claim:")
    _recognize_digits(terminal)


def _sort_tickets(terminal: Terminal) -> None:
    terminal.run(
        f"for day in {' '.join(DAYS)}; do .venv/bin/python examples/tickets/make_tickets.py $day {TICKETS_PER_DAY} |"
        f" {S3CMD} put --quiet - s3://records/tickets/dt=$day/tickets.parquet; done && {S3CMD} ls -r s3://records/tickets/"
    )
    terminal.run("sed -n '/^spec/,$p' examples/tickets/config.yaml | cut -c 1-110")
    terminal.run("kubectl apply -f examples/tickets/config.yaml -f examples/tickets/run.yaml")
    done = runs.wait_for_success(terminal, "tickets", timeout=120)
    table = _table(
        terminal,
        f"{S3CMD} get --quiet --recursive {done['output']['location']}/predictions/ -",
        file="build-output/tickets.parquet",
    )
    types = {name: table.schema.field(name).type for name in TICKET_TYPES}
    terminal.check(
        types == TICKET_TYPES,
        "one file has all results, with the types of the dataset and of the schema",
    )
    days = [str(day) for day in table["dt"].to_pylist()]
    terminal.check(
        days == [day for day in DAYS for _ in range(TICKETS_PER_DAY)]
        and len(set(table["id"].to_pylist())) == len(days),
        f"each of the {len(days)} tickets is there once, in the order of the input",
    )


def _recognize_digits(terminal: Terminal) -> None:
    terminal.run(
        f"{FILES} sh -c 'rm -rf /data/digits && python /models/draw.py {IMAGES} /data/digits && ls /data/digits | head -n 3'"
    )
    terminal.run("sed -n '/^spec/,$p' examples/images/config.yaml")
    terminal.run("kubectl apply -f examples/images/config.yaml -f examples/images/run.yaml")
    done = runs.wait_for_success(terminal, "digits", timeout=120)
    folder = done["output"]["location"].partition("/")[2]
    table = _table(
        terminal,
        f"{FILES} sh -c 'cat /data/{folder}/predictions/*'",
        file="build-output/digits.parquet",
    )
    digits = [int(name[0]) for name in table["name"].to_pylist()]
    right = sum(
        seen == digit for seen, digit in zip(table["prediction"].to_pylist(), digits, strict=True)
    )
    terminal.check(
        len(digits) == IMAGES and right >= RECOGNIZED * IMAGES,
        f"the model recognizes {right} of {IMAGES} digits",
    )


def _table(terminal: Terminal, command: str, *, file: str) -> pa.Table:
    """Fetch the only file of results, show it as a data frame, and return it."""
    terminal.run(f"mkdir -p build-output && {command} > {file} && {SHOW} {file}")
    return parquet.read_table(Path(terminal.checkout, file))
