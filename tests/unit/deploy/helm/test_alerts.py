"""Alerts and dashboards ask for metrics and reasons that exist, and each alert has a runbook."""

import json
import re
from typing import Any

import pytest
import yaml

from inferrun.reasons import Phase, Reason
from tests.unit.deploy.helm.test_values import CHART
from tests.unit.docs.pages import DOCS, ROOT, anchors, code_spans

PANELS: dict[str, str] = {
    f"{path.stem}: {panel['title']}": panel["targets"][0]["expr"]
    for path in sorted((CHART / "dashboards").iterdir())
    for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]
}
Rule = dict[str, Any]  # Any: free-form YAML

RULES: list[Rule] = yaml.safe_load((CHART / "alerts.yaml").read_text(encoding="utf-8"))["groups"][
    0
]["rules"]
DOCUMENTED = set(code_spans(DOCS / "reference" / "metrics.md"))


def unknown_names(query: str) -> set[str]:
    """Metrics in a query that the reference lacks, and reasons and phases that do not exist."""
    metrics = {
        re.sub("_(bucket|count|sum)$", "", name)
        for name in re.findall(r"\b(?:inferrun|temporal|process)_\w+", query)
    }
    matched = "|".join(re.findall(r'(?:reason|phase)[=!]~?"([^"]*)"', query)).split("|")
    return (metrics - DOCUMENTED) | (
        set(matched) - {*Reason, *Phase, "", ".*Succeeded", r"\\(none\\)"}
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_what_exists_and_its_runbook_has_a_section_with_commands(
    rule: Rule,
) -> None:
    assert unknown_names(rule["expr"]) == set()
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert anchor == rule["alert"].lower()
    assert anchor in anchors(ROOT / page)
    section = (
        (ROOT / page)
        .read_text(encoding="utf-8")
        .split(f"### {rule['alert']}\n")[1]
        .split("\n### ")[0]
    )
    assert all(f"- **{part}.**" in section for part in ("Meaning", "Question", "Commands"))
    assert rule["labels"]["severity"] in ("critical", "warning")


@pytest.mark.parametrize("query", PANELS.values(), ids=PANELS)
def test_a_panel_asks_for_what_exists(query: str) -> None:
    assert unknown_names(query) == set()


def test_a_query_that_names_something_else_is_noticed() -> None:
    assert unknown_names('inferrun_run{reason=~"Acepted|Ready"}') == {"inferrun_run", "Acepted"}
