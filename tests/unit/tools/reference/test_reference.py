"""The generated parts of the documentation are current, complete, and each on one page."""

import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from inferrun.exitcodes import ExitCode, meaning_of
from tools.reference import (
    catalogue,
    chart,
    dashboards,
    exit_codes,
    labels,
    pages,
    schemas,
    settings,
)
from tools.reference.__main__ import main
from tools.reference.commands import commands
from tools.reference.markdown import plain, table

ROOT = Path(__file__).resolve().parents[4]


def test_the_pages_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err


def test_every_part_is_on_exactly_one_page() -> None:
    found = Counter(
        name for page in pages.DOCS.rglob("*.md") for name in pages.names(page.read_text())
    )
    assert found == Counter(list(catalogue.parts()))


def test_an_outdated_part_is_reported_and_rewritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    (docs / "troubleshooting").mkdir(parents=True)
    reasons = pages.DOCS / "troubleshooting" / "reasons.md"
    (docs / "troubleshooting" / "reasons.md").write_text(reasons.read_text())
    page = docs / "labels.md"
    page.write_text("# L\n\n<!-- generated: labels -->\nold\n<!-- end of generated -->\n\nText.\n")
    assert main(["--check"], docs=docs) == 1
    reported = capsys.readouterr().err.splitlines()
    outdated = ["docs/labels.md", *(f"docs/reference/schemas/{name}" for name in schemas.schemas())]
    outdated += [str(path.relative_to(tmp_path)) for path in dashboards.stale(tmp_path)]
    assert reported == [
        f"{path} is out of date; run: python -m tools.reference" for path in outdated
    ]
    assert main([], docs=docs) == 0
    assert page.read_text() == (
        "# L\n\n<!-- generated: labels -->\n\n"
        + catalogue.parts()["labels"]
        + "\n<!-- end of generated -->\n\nText.\n"
    )
    assert main(["--check"], docs=docs) == 0


def test_every_value_of_the_chart_has_a_row() -> None:
    def leaves(value: object, path: str) -> list[str]:
        if (
            isinstance(value, dict)
            and value
            and not path.endswith((".requests", ".limits", ".labels"))
        ):
            return [leaf for key, inner in value.items() for leaf in leaves(inner, f"{path}.{key}")]
        return [path.removeprefix(".")]

    values = yaml.safe_load(chart.VALUES.read_text())
    assert [row[0].strip("`") for row in chart.rows(chart.VALUES.read_text())] == leaves(values, "")


def test_every_variable_that_the_programs_read_has_a_row() -> None:
    read = set(
        re.findall(
            r'environment(?:\.get\(|, )"([A-Z_]+)"', (ROOT / "control/settings.py").read_text()
        )
    )
    assert {row[0].strip("`") for row in settings.environment_rows()} == read - {"HOSTNAME"}


def test_every_exit_code_has_a_row_with_its_meaning() -> None:
    rows = {int(code): meaning for code, meaning, _ in exit_codes.rows()}
    assert {code: f"{code} ({meaning})" for code, meaning in rows.items()} == {
        int(code): meaning_of(code) for code in ExitCode
    }


def test_every_label_and_annotation_has_a_row() -> None:
    source = (ROOT / "inferrun" / "wellknown.py").read_text()
    for prefix in ("LABEL_", "ANNOTATION_"):
        declared = re.findall(rf"^{prefix}\w+: Final", source, re.MULTILINE)
        undocumented = {"LABEL_": 1, "ANNOTATION_": 0}[prefix]  # app.kubernetes.io/managed-by
        assert len(list(labels.rows(prefix))) == len(declared) - undocumented


def test_every_command_has_a_section_and_explains_its_arguments() -> None:
    section = catalogue.parts()["commands"]
    assert len(commands()) >= 16
    assert all(f"## inferrun {name}\n\n" in section for name in commands())
    assert "| . |" not in section


def test_a_cell_is_one_line_and_cannot_break_its_table() -> None:
    assert table(("a",), [("x\n |y",)]) == "| a |\n| --- |\n| x \\|y |\n"


def test_text_outside_of_code_is_shown_as_it_is() -> None:
    assert plain("<a> *b* `<c> *d*`") == r"&lt;a> \*b\* `<c> *d*`"
