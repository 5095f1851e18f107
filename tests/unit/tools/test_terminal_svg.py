"""Terminal output becomes an image with the same text."""

from pathlib import Path
from xml.etree import ElementTree

from tools.terminal_svg import WIDEST, main, plain_lines, render

SVG = "{http://www.w3.org/2000/svg}"


def test_escape_sequences_are_removed() -> None:
    assert plain_lines("\x1b[1;32mok\x1b[0m\n\x1b]0;title\x07done\n") == ["ok", "done"]


def test_a_redrawn_line_shows_its_last_state() -> None:
    assert plain_lines("10 %\r20 %\r100 %\r\n") == ["100 %"]


def test_a_long_line_is_cut() -> None:
    (line,) = plain_lines("x" * 500)
    assert len(line) == WIDEST
    assert line.endswith("…")


def test_the_image_holds_the_text_and_emphasises_commands() -> None:
    root = ElementTree.fromstring(render(["$ make demo", "", "  <a> & b"], title="demo"))  # noqa: S314
    texts = root.findall(f"{SVG}text")
    assert [text.text for text in texts] == ["demo", "$ make demo", "<a> & b"]
    assert [text.get("class") for text in texts] == ["title", "prompt", None]
    assert root.findtext(f"{SVG}title") == "demo"


def test_the_command_writes_the_image(tmp_path: Path) -> None:
    (tmp_path / "captured.txt").write_text("$ true\n")
    assert main([str(tmp_path / "captured.txt"), str(tmp_path / "image.svg"), "--title", "t"]) == 0
    assert (tmp_path / "image.svg").read_text().startswith("<svg ")
