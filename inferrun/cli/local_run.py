"""The command `local`, which needs no cluster: it executes a run on this machine.

A module of its own, with an application of its own: what the other commands import is not needed
here, and need not be installed.
"""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
import yaml
from rich.text import Text

from inferrun.cli.reporting import EXITS, CommandExit, fail, program
from inferrun.cli.terminal import cell, print_rows, stderr, stdout
from inferrun.client.errors import ClientError, InvalidRequest, RunFailed
from inferrun.client.manifest_files import read_manifests
from inferrun.client.progress import progress_display
from inferrun.exitcodes import ExitCode
from inferrun.local.execution import LOG, Event, Interrupted, OnEvent
from inferrun.local.request import LocalRequest, request_of
from inferrun.local.result import LocalResult, execute
from inferrun.local.spare import SpareProcess
from inferrun.local.state import FOLDER, LocalState
from inferrun.results.errors import ResultsError
from inferrun.run_result import RunResult
from inferrun.text import one_line, printable, shell_command

if TYPE_CHECKING:
    from inferrun.results import PredictedRows

SHOWN: Final = 10
"""Rows that are shown at the end."""

Files = Annotated[
    list[Path],
    typer.Option(
        "--file", "-f", metavar="FILE", help="Manifests: a config, a run, Secrets; repeatable."
    ),
]


def local(
    command: typer.Context,
    files: Files,
    *,
    claims: Annotated[
        list[str] | None,
        typer.Option(
            "--claim", metavar="NAME=FOLDER", help="Folder that stands for a claim; repeatable."
        ),
    ] = None,
    secrets: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="NAME=PATH",
            help="Folder with a file per key, or .env file, that stands for a Secret; repeatable.",
        ),
    ] = None,
    model_url: Annotated[
        str, typer.Option(metavar="URL", help="Address of the model instead of the config's.")
    ] = "",
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Cluster of a model of KServe. Default: as in kubectl."),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Context in the kubeconfig. Default: the current one."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="RECORDS", help="Read only the first records.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over, whatever an earlier command has done.")
    ] = False,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="json",
            help="Print an object per event instead of progress and rows.",
        ),
    ] = "",
    then: Annotated[
        str,
        typer.Option(
            metavar="apply", help="Print afterwards what executes the same run in a cluster."
        ),
    ] = "",
    state: Annotated[
        Path, typer.Option(metavar="FOLDER", help="What this machine knows of its runs.")
    ] = FOLDER,
) -> None:
    """Execute a run on this machine, without a cluster.

    The manifests are those of a cluster. Ctrl-C stops the run, and the same command goes on after
    the last commit. The exit code is the one that the run's Pod would have.

    Example: inferrun local -f config.yaml -f run.yaml --claim data=./data
    """
    raise typer.Exit(
        _local(
            files,
            claims=claims or (),
            secrets=secrets or (),
            options={
                "model_url": model_url,
                "limit": limit or 0,
                "kubeconfig": kubeconfig,
                "context": context,
            },
            state=LocalState(state),
            fresh=fresh,
            output=output,
            then=then,
            spare=command.obj,
        )
    )


def _local(
    files: list[Path],
    *,
    claims: Iterable[str],
    secrets: Iterable[str],
    options: Mapping[str, Any],  # Any: of several types
    state: LocalState,
    fresh: bool,
    output: str,
    then: str,
    spare: SpareProcess | None,
) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for option, value, allowed in (("output", output, "json"), ("then", then, "apply")):
            if value not in ("", allowed):
                raise InvalidRequest(f"--{option} {value!r} is not allowed; allowed: {allowed}")
        folders = {name: Path(path) for name, path in _named(claims, option="claim")}
        values = {name: _secret(Path(path)) for name, path in _named(secrets, option="secret")}
        request = request_of(
            files, claims=folders, secrets=values, environment=os.environ, **options
        )
        with _following(is_json=bool(output)) as show:
            result = execute(
                request, state, fresh=fresh, on_event=show, on_wait=_say_waiting, spare=spare
            )
        if not output:
            _report(result, request)
        if then:
            _print_manifests(files, request)
        return CommandExit.OK
    except RunFailed as failure:
        if not output:
            log = state.scratch(failure.result.name) / LOG
            fail(str(failure), fix=f"the log of the runner is {log}")
        return failure.result.exit_code or CommandExit.FAILED
    except Interrupted as interrupted:
        stderr().print(f"\n{interrupted}", style="yellow")
        return ExitCode.STOPPED
    except (ClientError, ResultsError) as error:
        fail(str(error), fix=error.fix if isinstance(error, ClientError) else "")
        return next((code for kind, code in EXITS if isinstance(error, kind)), CommandExit.FAILED)
    except OSError as error:
        fail(f"{error.filename or 'a file'}: {error.strerror or error}")
        return CommandExit.FAILED
    except KeyboardInterrupt:
        return CommandExit.INTERRUPTED


@cache
def _prepare_report() -> None:
    """Import what shows the results, while the runner works and nothing else is to be done here."""
    Thread(target=_import_for_report, daemon=True).start()


def _import_for_report() -> None:
    for module in ("inferrun.results.reading", "inferrun.formats.jsonl", "rich.table"):
        import_module(module)


def _named(texts: Iterable[str], *, option: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, sign, path = text.partition("=")
        if not (name and sign and path):
            raise InvalidRequest(f"--{option} {text!r} is not NAME=PATH")
        yield name, path


def _secret(path: Path) -> dict[str, bytes]:
    """The keys of a folder, or of a file with lines KEY=VALUE. Raises InvalidRequest."""
    try:
        if path.is_dir():
            files = (one for one in sorted(path.iterdir()) if one.is_file())
            return {one.name: one.read_bytes() for one in files}
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"--secret: {path} cannot be read: {error}") from error
    found = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        key, sign, value = text.removeprefix("export ").partition("=")
        if not sign:
            raise InvalidRequest(f"--secret: line {number} of {path} is not KEY=VALUE")
        value = value.strip()
        is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
        found[key.strip()] = (value[1:-1] if is_quoted else value).encode()
    return found


def _say_waiting() -> None:
    stderr().print("another command executes this run; waiting until it has ended", style="yellow")


@contextmanager
def _following(*, is_json: bool) -> Iterator[OnEvent]:
    """Shows what happens: as objects on lines, or for people."""
    if is_json:
        yield _print_event
        return
    with progress_display(is_wanted=None) as show:

        def follow(event: Event) -> None:
            if event.kind == "retrying":
                stderr().print(one_line(event.run.status.message or ""), style="yellow")
            elif event.kind == "log":
                _prepare_report()
                _warn(event.line)
            show(event.run)

        yield follow


def _print_event(event: Event) -> None:
    """An object for programs; a line of the runner is one already."""
    if event.kind == "log":
        sys.stdout.write(event.line if event.line.endswith("\n") else f"{event.line}\n")
    else:
        status = event.run.status.to_manifest()
        shown = ("phase", "reason", "message", "attempt", "records", "pace", "usage", "output")
        found = {key: status[key] for key in shown if key in status}
        found |= {"exitCode": status["exitCode"]} if "exitCode" in status else {}
        print(json.dumps({"event": event.kind, "run": event.run.metadata.name, **found}))
    sys.stdout.flush()


def _warn(line: str) -> None:
    """Show a warning of the runner."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return
    if isinstance(fields, dict) and fields.get("level") == "warning":
        detail = fields.get("detail") or fields.get("error")
        text = f"{fields.get('message')}{f': {detail}' if detail else ''}"
        stderr().print(one_line(text, limit=1000), style="yellow")


def _report(result: LocalResult, request: LocalRequest) -> None:
    """The first rows, the counts, where the results are, and what has failed."""
    has_rows = result.output is not None and bool(result.output.sha256)
    if has_rows:
        found = result.results()
        print_rows(list(islice(found.predictions, SHOWN)) or list(islice(found, SHOWN)))
        if len(found) > SHOWN:
            stderr().print(f"  {len(found) - SHOWN:,} more rows", style="dim")
        _print_errors(found)
    took = f" in {result.duration}" if result.duration else ""
    text = printable(f"{took}: {result.message}", limit=1000)
    stdout().print(Text.assemble(f"run {result.name} ", cell(result.phase), text))
    if result.output is not None and result.output.location:
        stdout().print(cell(f"output {_place(result, request)}"))


def _place(result: RunResult, request: LocalRequest) -> str:
    """Where the output is on this machine."""
    location = result.output.location if result.output is not None else ""
    claim, _, path = location.partition("/")
    folder = request.machine.claims.get(claim)
    return str(folder / path) if folder is not None else location


def _print_errors(found: "PredictedRows") -> None:
    """The failed records, grouped by what went wrong, with an example of each."""
    counts, examples = Counter[str](), dict[str, str]()
    for row in found.errors:
        code = str(row.get("error_code"))
        counts[code] += 1
        examples.setdefault(code, f"record {row['index']}: {row.get('error_message')}")
    for code, number in counts.most_common():
        text = f"{number:,} failed with {code}, such as {examples[code]}"
        stderr().print(one_line(text, limit=1000), style="red")


def _print_manifests(files: Iterable[Path], request: LocalRequest) -> None:
    """What executes the same run in a cluster. Secrets are named, never printed."""
    documents = [one.document for file in files for one in read_manifests(file)]
    kept = [one for one in documents if isinstance(one, dict) and one.get("kind") != "Secret"]
    print(yaml.safe_dump_all(kept, sort_keys=False), end="")
    arguments = [word for file in files for word in ("-f", str(file))]
    run = request.run.metadata.name
    print("---")
    print(f"# {shell_command('kubectl', 'apply', *arguments)}")
    print(
        f"# {shell_command('kubectl', 'wait', '--for=condition=Finished', f'inferencerun/{run}')}"
    )
    print(f"# {shell_command('kubectl', 'get', 'inferencerun', run)}")
    needed = [f"claim {name}" for name in request.machine.claims]
    needed += [f"Secret {name}" for name in request.machine.secrets]
    if needed:
        print(f"# The namespace needs: {', '.join(needed)}")


def application(arguments: list[str], *, spare: SpareProcess) -> NoReturn:
    """The command line of this command alone; `spare` has imported the runner meanwhile."""
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich")
    app.callback()(_nothing)
    app.command("local")(local)
    typer.main.get_command(app)(arguments, prog_name=program(), obj=spare)
    raise SystemExit(0)


def _nothing() -> None:
    """Batch inference, on this machine or on Kubernetes."""
