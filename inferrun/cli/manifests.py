"""The commands about manifests, which need no cluster: `validate` checks files, and `init` writes
one."""

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from inferrun import wellknown
from inferrun.cli.reporting import CommandExit, fail, program
from inferrun.cli.terminal import stderr
from inferrun.client import InvalidRequest
from inferrun.client.manifest_files import check_manifest, read_manifests
from inferrun.names import is_subdomain
from inferrun.stores import OBJECT_STORES
from inferrun.text import one_line

LINE_LIMIT: Final = 1000


def validate(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Manifests in YAML or JSON; - reads standard input."),
    ],
) -> None:
    """Check manifests of configs and runs, without a cluster.

    What only the cluster knows is not checked: whether a config, a Secret or a model exists.
    """
    is_valid = True
    for path in files:
        try:
            manifests = read_manifests(path)
        except InvalidRequest as error:
            fail(str(error))
            is_valid = False
            continue
        for one in manifests:
            found = [*one.problems, *(f"warning: {text}" for text in one.warnings)]
            found += ["valid"] if not one.problems and one.resource is not None else []
            for text in found:
                print(one_line(f"{path}: {one.title}: {text}", limit=LINE_LIMIT))
            is_valid = is_valid and not one.problems
    raise typer.Exit(CommandExit.OK if is_valid else CommandExit.USAGE)


# The answers of `init`. Each parser raises typer.BadParameter, upon which the question is asked
# again.

FORMATS: Final = {".csv": "csv", ".parquet": "parquet", ".arrow": "arrow", ".jsonl": "jsonl"}
MODEL_FORMS: Final = "URL of its inference endpoint, or name of an InferenceService"
_OBJECT_FORMS: Final = (
    "s3://BUCKET/PATH, gs://BUCKET/PATH, abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
)
INPUT_FORMS: Final = (
    f"{_OBJECT_FORMS}, pvc://CLAIM/PATH, https://HOST/FILE or a query that starts with SELECT"
)
OUTPUT_FORMS: Final = f"{_OBJECT_FORMS}, pvc://CLAIM/PATH or table://TABLE"


def _name(text: str) -> str:
    if not is_subdomain(text):
        raise typer.BadParameter("allowed are a-z, 0-9, - and .")
    return text


def _model(text: str) -> dict[str, object]:
    if "/" not in text and is_subdomain(text):
        return {"serviceRef": {"name": text}}
    named = re.search(r"/models/([^/:]+)", text)
    if " " in text or "/" not in text:
        raise typer.BadParameter(f"allowed: {MODEL_FORMS}")
    return {**({"modelName": named[1]} if named else {}), "modelUrl": text}


def _storage(text: str, *, is_input: bool) -> dict[str, object]:
    scheme, _, rest = text.partition("://")
    place, _, path = rest.partition("/")
    suffix = next((one for one in FORMATS if path.endswith(one)), "")
    form = {"format": FORMATS[suffix]} if suffix else {}
    container, _, account = place.removesuffix(".dfs.core.windows.net").partition("@")
    label, names = {
        "s3": ("s3", {"bucket": place}),
        "gs": ("gcs", {"bucket": place}),
        "abfss": ("azure", {"account": account, "container": container}),
    }.get(scheme, ("", {}))
    if label and all(names.values()) and path:
        server = os.environ.get(OBJECT_STORES[label].endpoint_variables[-1])
        return {label: {**names, "path": path, **({"endpoint": server} if server else {}), **form}}
    if scheme == "pvc" and place and path:
        return {"file": {"claimName": place, "path": path, **form}}
    if is_input and scheme in ("http", "https") and path:
        return {"http": {"url": text, **form}}
    if is_input and text.lower().startswith("select "):
        return {"sql": {"query": text}}
    if not is_input and scheme == "table" and place:
        return {"sql": {"table": place}}
    raise typer.BadParameter(f"allowed: {INPUT_FORMS if is_input else OUTPUT_FORMS}")


QUESTIONS: Final[tuple[tuple[str, str, str, str, Callable[[str], object]], ...]] = (
    ("name", "Name of the config", "", "iris", _name),
    ("model", "Model", MODEL_FORMS, "", _model),
    ("input", "Input", INPUT_FORMS, "", partial(_storage, is_input=True)),
    ("output", "Output", OUTPUT_FORMS, "", partial(_storage, is_input=False)),
    (
        "secret",
        "Secret with the credentials for the storage",
        "",
        "none",
        lambda text: "" if text in ("", "none") else _name(text),
    ),
)
"""Each question: its option, the question, what is allowed, the default, and what parses the
answer."""


def init(
    *,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the config.")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="URL|NAME", help=f"Model: {MODEL_FORMS}.")
    ] = None,
    input_: Annotated[
        str | None, typer.Option("--input", metavar="LOCATION", help=f"Input: {INPUT_FORMS}.")
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="LOCATION", help=f"Output: {OUTPUT_FORMS}.")
    ] = None,
    secret: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Secret with the credentials for the storage, or none."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="File to write. Default: NAME.yaml."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write a config, from five questions.

    Each question can be answered with an option. For another S3 server than Amazon's, set
    AWS_ENDPOINT_URL to its address in the cluster; STORAGE_EMULATOR_HOST and AZURE_STORAGE_ENDPOINT
    do the same for gs and abfss. The file is a start: inferrun validate checks what you add to it.
    """
    given = {"name": name, "model": model, "input": input_, "output": output, "secret": secret}
    answers: dict[str, Any] = {}  # Any: each question has its own type
    for key, question, forms, default, parse in QUESTIONS:

        def check(text: str, key: str = key, parse: Callable[[str], object] = parse) -> object:
            value = parse(text)
            if problems := check_manifest(_config_of({**answers, key: value}), number=1).problems:
                raise typer.BadParameter("; ".join(problems))
            return value

        text = given[key]
        if text is None:
            if forms:
                stderr().print(f"\n{question}: {forms}", style="dim")
            answers[key] = typer.prompt(question, default=default or None, value_proc=check)
            continue
        try:
            answers[key] = check(text)
        except typer.BadParameter as error:
            fail(f"--{key} {text!r} is not allowed", fix=error.message)
            raise typer.Exit(CommandExit.USAGE) from error
    path = file or Path(f"{answers['name']}.yaml")
    if path.exists() and not force:
        fail(
            f"{path} exists already",
            fix="choose another file with --file, or overwrite it with --force",
        )
        raise typer.Exit(CommandExit.USAGE)
    try:
        path.write_text(yaml.safe_dump(_config_of(answers), sort_keys=False), encoding="utf-8")
    except OSError as error:
        fail(f"{path}: {error.strerror}")
        raise typer.Exit(CommandExit.USAGE) from error
    print(f"wrote {path}")
    stderr().print(f"  run it: {program()} run -f {path} --wait", style="dim")


def _config_of(answers: dict[str, Any]) -> dict[str, Any]:  # Any: as above
    """The config; what has not been answered yet has a valid value."""
    spare = {"file": {"claimName": "data", "path": "records"}}
    storage = {end: dict(answers.get(end, spare)) for end in ("input", "output")}
    for end in storage.values():
        for label, settings in end.items():
            if label != "file" and (secret := answers.get("secret", "credentials")):
                end[label] = {**settings, "credentialsRef": {"name": secret}}
    return {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.CONFIG_KIND,
        "metadata": {"name": answers["name"]},
        "spec": {
            "kserve": answers.get("model", {"serviceRef": {"name": "model"}}),
            "storage": storage,
        },
    }
