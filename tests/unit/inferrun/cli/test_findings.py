"""How findings are shown, whatever they are about."""

from inferrun.cli.findings import lines, ok, problem

HOSTILE = "\x1b[2J\x1b]0;title\x07first\nok       everything\u202e"


def test_a_finding_is_one_line_without_what_a_terminal_interprets() -> None:
    found = list(
        lines(
            [problem("namespace team-a", f"served by another installation: {HOSTILE}", fix="a\nb")]
        )
    )
    assert found == [
        "PROBLEM  namespace team-a: served by another installation: first ok everything",
        "         fix: a",
        "              b",
    ]


def test_a_finding_of_a_megabyte_is_truncated() -> None:
    [found] = lines([ok("pollers", "x" * 1_000_000)])
    assert len(found) < 3000
