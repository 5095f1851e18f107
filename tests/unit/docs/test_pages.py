"""The pages name only what there is: fields, targets, values, files, reasons. Their tables are current."""

import json
import re
from pathlib import Path

import pytest
import yaml

from deploy.crds.definitions import inference_config, inference_run
from deploy.crds.schema import Schema
from inferrun.cli import parser
from inferrun.reasons import Phase, Reason
from inferrun.resources import parse_config, parse_run
from inferrun.resources.validation import config_problems, run_problems
from inferrun.submission import parse_submission
from inferrun.temporal.connection import ATTRIBUTES
from tests.unit.docs.pages import (
    DECISIONS,
    OPERATIONS,
    PAGES,
    README,
    ROOT,
    Json,
    blocks,
    commands,
    links,
    manifests,
    prose,
)
from tools.docs_tables import VALUES, environment_rows, main, value_rows
from workflows.messages import SUBMIT_WORKFLOW, RunResult

MANIFESTS = manifests()

OTHER_WORDS = {
    *("InferenceConfig", "InferenceRun", "SubmitInferenceRun", "OpenAI", "ConfigMap", "RecordFormat"),
    *("OutputStore", "ModelProtocol", "ExactlyOnce", "AtLeastOnce", "DeleteOnSuccess", "DeleteOnCompletion"),
    *("IfNotPresent", *(key.name for key in ATTRIBUTES)),
}
"""Words of two parts in backticks that are no reasons."""


def test_the_tables_are_what_their_sources_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err


def test_the_table_of_values_has_every_value_of_the_chart() -> None:
    def leaves(value: object, path: str) -> list[str]:
        if isinstance(value, dict) and value and not path.endswith((".requests", ".limits")):
            return [leaf for key, inner in value.items() for leaf in leaves(inner, f"{path}.{key}")]
        return [path.removeprefix(".")]

    chart = yaml.safe_load(VALUES.read_text())
    assert [row[0].strip("`") for row in value_rows(VALUES.read_text())] == leaves(chart, "")


def test_the_table_of_variables_has_every_variable_that_the_programs_read() -> None:
    read: set[str] = set()
    for path in (
        ROOT / "inferrun/control/settings.py",
        ROOT / "operator_shim/settings.py",
        ROOT / "worker/settings.py",
    ):
        read |= set(re.findall(r'environment(?:\.get\(|, )"([A-Z_]+)"', path.read_text()))
    told = {row[0].strip("`") for row in environment_rows()}
    assert told == read - {"HOSTNAME"}


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: f"{one['kind']}/{one['metadata']['name']}")
def test_a_manifest_has_only_fields_that_there_are_and_nothing_wrong(manifest: Json) -> None:
    definition = {"InferenceConfig": inference_config(), "InferenceRun": inference_run()}[manifest["kind"]]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert unknown_fields(manifest["spec"], schema) == []
    stored = {**manifest, "metadata": {"namespace": "n", "uid": "u", **manifest["metadata"]}}
    problems = (
        config_problems(parse_config(stored)) if "storage" in manifest["spec"] else run_problems(parse_run(stored))
    )
    assert [str(problem) for problem in problems] == []


def unknown_fields(value: object, schema: Schema) -> list[str]:
    """Keys that a schema does not have; what is free-form ends the search."""
    properties = schema.get("properties")
    if not isinstance(value, dict) or not properties or "additionalProperties" in schema:
        return []
    is_open = schema.get("x-kubernetes-preserve-unknown-fields", False)
    unknown = [] if is_open else [key for key in value if key not in properties]
    return unknown + [
        name for key in value if key in properties for name in unknown_fields(value[key], properties[key])
    ]


def test_there_are_manifests_to_look_at() -> None:
    assert len(MANIFESTS) >= 8


def test_the_request_in_the_readme_is_one_that_is_taken() -> None:
    request, result = (json.loads(text) for text in blocks(README, "json"))
    assert parse_submission(request).namespace == "models"
    assert set(result) == set(json.loads(RunResult.model_validate(result).model_dump_json()))


def test_the_one_liner_in_the_readme_starts_the_right_workflow() -> None:
    (line,) = (line for line in commands() if line.startswith("temporal workflow execute"))
    assert f"--type {SUBMIT_WORKFLOW}" in line
    given = re.search(r"--input '(.*)'", line)
    assert given is not None
    assert parse_submission(json.loads(given[1])).config_ref is not None


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        word
        for command in commands()
        for found in re.findall(r"(?:^|&& |\s)make ((?:[a-z0-9-]+ ?)+)", command.split("#")[0])
        for word in found.split()
    }
    assert {"demo", "test", "bench", "cluster-down"} <= named
    assert named - targets == set()


def test_every_chart_value_that_is_set_exists() -> None:
    known = {row[0].strip("`") for row in value_rows(VALUES.read_text())}
    text = "\n".join(page.read_text() for page in PAGES)
    named = set(re.findall(r"--set[ \n\\]+([A-Za-z.]+)=", text)) - {"NAME"}
    assert named
    assert named - known == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_reason_that_is_named_exists(page: Path) -> None:
    words = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", prose(page)))
    assert words - {*Reason, *Phase} - OTHER_WORDS == set()


def test_every_doctor_that_is_called_is_one_that_can_be_called() -> None:
    calls = [command for command in commands() if re.search(r"(^|\s)inferrun doctor", command)]
    assert calls
    for call in calls:
        parser().parse_args(call[call.index("inferrun doctor") :].split()[1:])


def test_every_decision_is_listed_and_at_most_a_page_long() -> None:
    records = sorted(path for path in DECISIONS.glob("*.md") if path.name != "README.md")
    assert links(DECISIONS / "README.md") == [path.name for path in records]
    for path in records:
        assert len(path.read_text().splitlines()) <= 60
        for word in ("Context.", "Choice.", "Rejected.", "Cost."):
            assert f"\n{word} " in path.read_text(), path.name


def test_the_commands_that_look_at_something_name_kinds_that_there_are() -> None:
    kinds = {"inferenceruns", "inferencerun", "inferenceconfigs", "jobs", "deployment", "secret", "crd", "pods"}
    named = {
        found[1].split("/")[0].split(".")[0]
        for command in commands()
        for found in re.finditer(r"kubectl (?:-n \S+ )?(?:get|describe|explain|wait) ([a-z./]+)", command)
    }
    assert named
    assert named - kinds == set()


def test_the_operators_page_says_how_definitions_are_upgraded() -> None:
    (folder,) = set(re.findall(r"kubectl apply --server-side --force-conflicts -f (\S+crds/)", OPERATIONS.read_text()))
    assert sorted(path.suffix for path in (ROOT / folder).iterdir()) == [".yaml", ".yaml"]
