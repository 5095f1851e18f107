"""Renders captured terminal output as an SVG image that looks the same everywhere.

    python -m tools.terminal_svg captured.txt docs/_static/demo.svg --title "make demo"

The text is drawn as text: it can be selected and read by screen readers, and needs no font from another host. Escape sequences
are removed; lines that begin with a prompt (`$ `) are emphasised. Pure but for reading and writing the two files.
"""

import argparse
import re
import sys
from html import escape
from pathlib import Path
from typing import Final

CHARACTER_WIDTH: Final = 8.4
LINE_HEIGHT: Final = 19
MARGIN: Final = 18
TITLE_HEIGHT: Final = 34
WIDEST: Final = 120

_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

_STYLE: Final = (
    "text{font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#e2e8f0;white-space:pre}"
    ".prompt{fill:#86efac;font-weight:600}.title{fill:#94a3b8;text-anchor:middle}"
)


def plain_lines(captured: str) -> list[str]:
    """The visible lines of a capture: without escape sequences, and of a line that was redrawn only its last state."""
    lines = [_ESCAPE.sub("", line).rstrip("\r").rpartition("\r")[2] for line in captured.split("\n")]
    cut = [_CONTROL.sub("", line.expandtabs()).rstrip() for line in lines]
    while cut and not cut[-1]:
        cut.pop()
    return [line if len(line) <= WIDEST else line[: WIDEST - 1] + "…" for line in cut]


def render(lines: list[str], *, title: str) -> str:
    """The image of a terminal that shows `lines`."""
    columns = max([40, *(len(line) for line in lines)])
    width, height = round(columns * CHARACTER_WIDTH + 2 * MARGIN), TITLE_HEIGHT + len(lines) * LINE_HEIGHT + MARGIN
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title">',
        f'<title id="title">{escape(title)}</title>',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" rx="10" fill="#0f172a"/>',
        *(f'<circle cx="{MARGIN + 16 * place}" cy="16" r="5" fill="#475569"/>' for place in range(3)),
        f'<text class="title" x="{width / 2:g}" y="21">{escape(title)}</text>',
        *(_line(line, y=TITLE_HEIGHT + (place + 1) * LINE_HEIGHT - 5) for place, line in enumerate(lines) if line),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _line(line: str, *, y: int) -> str:
    """One line; its length is fixed, so that columns stay aligned in every font."""
    text = line.lstrip(" ")
    x = MARGIN + (len(line) - len(text)) * CHARACTER_WIDTH
    kind = ' class="prompt"' if text.startswith("$ ") else ""
    length = f'textLength="{len(text) * CHARACTER_WIDTH:g}" lengthAdjust="spacingAndGlyphs"'
    return f'<text{kind} x="{x:g}" y="{y}" xml:space="preserve" {length}>{escape(text)}</text>'


def main(arguments: list[str] | None = None) -> int:
    """Read a capture, write the image; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.terminal_svg", description="Render terminal output as SVG.")
    parser.add_argument("captured", type=Path, help="file with the captured output")
    parser.add_argument("image", type=Path, help="SVG file to write")
    parser.add_argument("--title", default="terminal", help="text in the title bar, and the image's accessible name")
    words = parser.parse_args(arguments)
    lines = plain_lines(words.captured.read_text(encoding="utf-8", errors="replace"))
    words.image.write_text(render(lines, title=words.title), encoding="utf-8")
    sys.stdout.write(f"wrote {words.image} ({len(lines)} lines)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
