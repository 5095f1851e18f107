"""The pages name only what exists: fields, commands, values, files, links, reasons. Their examples
are valid."""

import ast
import json
import re
import shlex
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer

import inferrun
from deploy.crds.definitions import inference_config, inference_run
from deploy.crds.schema import Schema
from inferrun import client, plugins, results
from inferrun.contract import Duplicates
from inferrun.kserve.inference_service import FAILED_TRANSITIONS
from inferrun.kserve.llm_inference_service import CONFIGURATION_ERRORS
from inferrun.plugins import testing
from inferrun.reasons import Phase, Reason
from inferrun.resources import parse_config, parse_run
from inferrun.resources.validation import config_problems, run_problems
from inferrun.run_status import STAGES
from inferrun.submission import WORKFLOW_TYPE, Submission, parse_submission
from inferrun.temporal.connection import ATTRIBUTES
from inferrun_krateo.migrate import migrate
from tests.unit.docs.pages import (
    DECISIONS,
    DOCS,
    FRONT_DOOR,
    PAGES,
    README,
    ROOT,
    Json,
    anchors,
    blocks,
    code_spans,
    commands,
    images,
    kinds,
    links,
    manifest_name,
    manifests,
    name_of,
    prose,
)
from tools.reference import chart
from tools.reference.commands import commands as subcommands

MANIFESTS = manifests()

LANGUAGES = {
    "",
    "json",
    "yaml",
    "python",
    "toml",
    "dockerfile",
    "{toctree}",
    "{include}",
    "{literalinclude}",
}

OTHER_WORDS = {
    *(
        "InferenceConfig",
        "InferenceRun",
        "SubmitInferenceRun",
        "InferenceService",
        "ConfigMap",
        "OpenAI",
    ),
    *Duplicates,
    *("LaunchJob", "InspectLaunch", "StopLaunch", "VerifyOutput", "MarkerRecorded"),
    *(
        "IfNotPresent",
        "InProgress",
        "ReadWriteOnce",
        "ReadWriteOncePod",
        "ReadWriteMany",
        "OutOfcpu",
    ),
    *(*FAILED_TRANSITIONS, *CONFIGURATION_ERRORS),
    *plugins.__all__,
    *testing.__all__,
    *client.__all__,
    *results.__all__,
    *(
        "NotIn",
        "DoesNotExist",
        "NoSchedule",
        "PreferNoSchedule",
        "NoExecute",
        "DoNotSchedule",
        "ScheduleAnyway",
    ),
    *("ExactlyOnce", "AtLeastOnce", "DeleteOnSuccess", "DeleteOnCompletion"),
    *(key.name for key in ATTRIBUTES),
    *STAGES,
    *inferrun.__all__,
    "TabSeparated",
}
"""Words of several parts in backticks that are not reasons."""

INVENTED = {
    "Killed",
    "NotifyOwner",
    "shim.podLabels",
    "shim.podLabels.team",
    "activities/notify_owner.py",
}
"""What the examples on the page of common tasks add."""

FOLDERS = (
    "activities",
    "campaigns",
    "control",
    "deploy",
    "docs",
    "examples",
    "inferrun",
    "operator_shim",
    "requirements",
    "inferrun_runner",
    "tests",
    "tools",
)
"""Top-level folders: a path in backticks that begins with one must exist."""

PLACEHOLDER = re.compile(r"[<>*{}…]|\b[A-Z_]{3,}\b|example")
"""Marks a path as a pattern rather than a file."""


@pytest.mark.parametrize(
    "manifest",
    MANIFESTS,
    ids=lambda one: f"{one['kind']}/{manifest_name(one)}" if isinstance(one, dict) else None,
)
def test_a_manifest_is_valid(manifest: Json) -> None:
    definition = {"InferenceConfig": inference_config(), "InferenceRun": inference_run()}[
        manifest["kind"]
    ]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert unknown_fields(manifest["spec"], schema) == []
    metadata = {
        "namespace": "n",
        "uid": "u",
        "name": manifest_name(manifest),
        **manifest["metadata"],
    }
    stored = {**manifest, "metadata": metadata}
    problems = (
        config_problems(parse_config(stored))
        if "storage" in manifest["spec"]
        else run_problems(parse_run(stored))
    )
    assert [str(problem) for problem in problems] == []


def unknown_fields(value: object, schema: Schema) -> list[str]:
    """Keys that a schema does not have; the search ends at what is free-form."""
    properties = schema.get("properties")
    if not isinstance(value, dict) or not properties or "additionalProperties" in schema:
        return []
    is_open = schema.get("x-kubernetes-preserve-unknown-fields", False)
    unknown = [] if is_open else [key for key in value if key not in properties]
    return unknown + [
        name
        for key in value
        if key in properties
        for name in unknown_fields(value[key], properties[key])
    ]


for_each_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


@for_each_page
def test_every_block_has_a_known_language_and_is_valid_and_its_imports_exist(page: Path) -> None:
    assert kinds(page) <= LANGUAGES
    for text in blocks(page, "json"):
        json.loads(text)
    for text in blocks(page, "toml"):
        tomllib.loads(text)
    for text in blocks(page, "python"):
        compile(text, name_of(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for found in (
            node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)
        ):
            if str(found.module).startswith("pyspark"):  # needs Java; not among the locked packages
                continue
            names = [alias.name for alias in found.names]
            module = __import__(str(found.module), fromlist=names)
            assert [name for name in names if not hasattr(module, name)] == []


def test_every_field_of_a_request_is_described() -> None:
    table = FRONT_DOOR.read_text().split("## Argument", 1)[1].split("## Result", 1)[0]
    rows = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    public = {
        field.alias
        for name, field in Submission.model_fields.items()
        if name not in {"parent", "following"}
    }
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == public


def test_the_one_line_submission_starts_the_right_workflow() -> None:
    (line,) = (line for line in commands() if line.startswith("temporal workflow execute"))
    assert f"--type {WORKFLOW_TYPE}" in line
    given = re.search(r"--input '(.*)'", line)
    assert given is not None
    assert parse_submission(json.loads(given[1])).config_ref is not None


def test_every_patch_sets_a_field_that_exists() -> None:
    patches = [
        shlex.split(command) for command in commands() if command.startswith("kubectl patch")
    ]
    patches = [words for words in patches if "-p" in words]
    assert len(patches) >= 2
    for words in patches:
        definition = inference_config() if words[2] == "inferenceconfig" else inference_run()
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][
            "spec"
        ]
        assert unknown_fields(json.loads(words[words.index("-p") + 1])["spec"], schema) == [], words


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        word
        for command in commands()
        for found in re.findall(r"(?:^|&& |\s)make ((?:[a-z0-9-]+ ?)+)", command.split("#")[0])
        for word in found.split()
    }
    assert {"demo", "test", "docs", "bench", "cluster-down"} <= named
    assert named - targets == set()


def test_every_module_that_is_run_exists() -> None:
    named = {
        found for command in commands() for found in re.findall(r"python -m ([a-z_.]+)", command)
    }
    assert "tools.reference" in named
    for module in named:
        path = ROOT.joinpath(*module.split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module


@for_each_page
def test_every_path_exists(page: Path) -> None:
    spans = [
        span.split()[0]
        for span in code_spans(page)
        if span.startswith(tuple(f"{one}/" for one in FOLDERS))
    ]
    missing = [
        span
        for span in {*spans} - INVENTED
        if not PLACEHOLDER.search(span) and not (ROOT / span).exists()
    ]
    assert missing == []


def test_every_file_given_to_a_command_exists() -> None:
    for command in commands():
        for path in re.findall(
            r"(?<![\w./-])((?:examples|deploy|tests|tools|docs)/[\w./-]+)", command.split("#")[0]
        ):
            assert (ROOT / path).exists(), command


def test_every_chart_value_exists() -> None:
    known = {row[0].strip("`") for row in chart.rows(chart.VALUES.read_text())}
    text = "\n".join(page.read_text() for page in PAGES)
    named = set(re.findall(r"--set[ \n\\]+([A-Za-z.]+)=", text)) - {"NAME"}
    roots = {value.split(".")[0] for value in known if "." in value}
    spans = {
        span
        for page in PAGES
        for span in code_spans(page)
        if re.fullmatch(rf"(?:{'|'.join(roots)})\.[A-Za-z]+", span)
    }
    assert named
    assert (named | spans) - known - INVENTED == set()


@for_each_page
def test_every_link_has_a_target(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@for_each_page
def test_every_image_has_an_alternative_text(page: Path) -> None:
    assert [target for text, target in images(page) if len(text) < 20] == []


@pytest.mark.parametrize(
    "picture", sorted((DOCS / "_static").glob("*.svg")), ids=lambda path: path.name
)
def test_every_drawing_has_a_title_and_loads_nothing(picture: Path) -> None:
    text = picture.read_text()
    root = ElementTree.fromstring(text)  # noqa: S314  our own files
    assert root.get("role") == "img"
    assert root.findtext("{http://www.w3.org/2000/svg}title")
    assert re.findall(r"https?://(?!www\.w3\.org/)|url\((?!#)", text) == []


@for_each_page
def test_every_reason_exists(page: Path) -> None:
    words = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", prose(page)))
    assert words - {*Reason, *Phase} - OTHER_WORDS - INVENTED == set()


def test_every_call_of_the_command_line_is_valid() -> None:
    pattern = re.compile(r"(?:\$ )?(?:[A-Z_]+=\S+ )*inferrun ([a-z].*)")
    calls = [
        shlex.split(found[1]) for command in commands() if (found := pattern.fullmatch(command))
    ]
    assert {"doctor"} <= {name for name, *_ in calls}
    migration = typer.Typer()
    migration.command()(migrate)
    known = subcommands() | {"migrate": typer.main.get_command(migration)}
    for name, *arguments in calls:
        assert name in known, name
        if arguments:
            known[name].make_context(name, list(arguments))


def test_every_decision_has_a_date_and_a_status_and_is_at_most_a_page_long() -> None:
    records = sorted(path for path in DECISIONS.glob("*.md") if path.name != "index.md")
    assert len(records) >= 11
    for path in records:
        text = path.read_text()
        assert re.match(
            r"# \d{4}: .+\n\nDate: \d{4}-\d\d-\d\d\. Status: (accepted|superseded by \[\d{4}\]\(.+\))\.\n",
            text,
        ), path
        assert len(text.splitlines()) <= 60
        for word in ("Context.", "Choice.", "Rejected.", "Cost."):
            assert f"\n{word} " in text, path.name


def test_kubectl_commands_name_resources_that_exist() -> None:
    known = {"inferenceruns", "inferencerun", "inferenceconfigs", "inferenceconfig"}
    known |= {
        "jobs",
        "cronjob",
        "events",
        "deployment",
        "namespace",
        "secret",
        "crd",
        "pods",
        "lease",
        "node",
        "nodes",
    }
    known |= {"endpointslice", "resourcequota", "networkpolicies", "validatingadmissionpolicies"}
    named = {
        found[1].split("/")[0].split(".")[0]
        for command in commands()
        for found in re.finditer(
            r"kubectl (?:-n \S+ )?(?:get|describe|explain|wait|patch) ([a-z./]+)", command
        )
    }
    assert named
    assert named - known == set()


def test_the_readme_can_be_read_in_three_minutes() -> None:
    assert len(prose(README).split()) <= 600
