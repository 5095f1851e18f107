"""Text from outside is shown on one line, without anything that a terminal, a browser or a shell
would interpret."""

import time

import pytest

from inferrun.text import code_span, one_line, public_url


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\r\n and\ttabs ", "two lines and tabs"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://evil\x07link\x1b]8;;\x07", "link"),
        ("\x9b2Jcleared", "cleared"),
        ("bell\x07 null\x00 delete\x7f", "bell null delete"),
        ("safe\u202egnp.exe", "safe gnp.exe"),
        ("\u2066isolate\u2069 \u200bzero \ufeffmark \u2028line", "isolate zero mark line"),
        ("\ud800surrogate", "surrogate"),
        ("\x1b", ""),
        ("Grüße, 世界 🙂", "Grüße, 世界 🙂"),
    ],
)
def test_text_becomes_one_line_without_control_characters(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_a_long_text_is_truncated_without_being_read_as_a_whole() -> None:
    assert one_line("a" * 600) == "a" * 511 + "…"
    assert one_line("a" + " " * 100_000 + "b", limit=10) == "a…"
    long = "\x1b[1;" * 5_000_000
    began = time.perf_counter()
    assert len(one_line(long)) <= 512
    assert time.perf_counter() - began < 0.05


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("plain", "`plain`"),
        (
            "[x](http://evil) ![x](http://evil/i.png) <img src=x>",
            "`[x](http://evil) ![x](http://evil/i.png) <img src=x>`",
        ),
        ("a `b` c", "`` a `b` c ``"),
        ("```", "```` ``` ````"),
        ("line\n# heading", "`line # heading`"),
        ("", ""),
    ],
)
def test_a_code_span_leaves_nothing_to_interpret(text: str, markdown: str) -> None:
    assert code_span(text) == markdown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://user:pa55@host:8080/v2/models?token=t0ken#f", "http://host:8080/v2/models"),
        ("user:pa55@host/v2", "host/v2"),
        ("host:8080/v2", "host:8080/v2"),
        ("https://[fd00::1]:80/x?y", "https://[fd00::1]:80/x"),
        ("http://host:port/x?secret", "(invalid URL)"),
        ("http://[::1/x", "(invalid URL)"),
    ],
)
def test_a_public_url_has_neither_credentials_nor_a_query(url: str, shown: str) -> None:
    assert public_url(url) == shown
