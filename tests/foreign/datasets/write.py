"""Writes tables with the image features of Hugging Face datasets, and what datasets itself reads of
them.

An image is read as its size and its upper left pixel, and what datasets cannot read as `"error"`.
It writes no struct whose members are both null.
"""

import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(Path(sys.argv[1]).resolve() / ".home")}

from datasets import Dataset, Features, Image, List, Value, disable_progress_bars, load_dataset
from PIL import Image as Pixels

Cell = dict[str, Any]  # Any: JSON


def main(out: Path) -> None:
    (out / "files").mkdir(parents=True, exist_ok=True)
    os.chdir(out / "files")
    disable_progress_bars()
    there = Path("there.png")  # datasets asks for its size, but does not put it into the files
    there.write_bytes(_encoded("PNG", (0, 255, 0)))
    single = Dataset.from_dict(
        {
            "name": ["bytes", "null", "no path", "path"],
            "image": [
                {"bytes": _encoded("PNG", (255, 0, 0)), "path": "red.png"},
                None,
                {"bytes": _encoded("JPEG", (0, 0, 0)), "path": None},
                {"bytes": None, "path": str(there)},
            ],
        },
        features=Features({"name": Value("string"), "image": Image()}),
    )
    single.to_parquet("images.parquet")
    there.unlink()
    several = Dataset.from_dict(
        {
            "name": ["two", "none", "one"],
            "images": [[_pixels((0, 0, 255)), _pixels((255, 0, 0))], [], [_pixels((1, 2, 3))]],
        },
        features=Features({"name": Value("string"), "images": List(Image())}),
    )
    several.to_parquet("lists.parquet")
    expected = {name: _read(name) for name in ("images.parquet", "lists.parquet")}
    (out / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def _read(name: str) -> list[Cell]:
    rows = load_dataset("parquet", data_files=name, split="train", cache_dir=".cache")
    found = []
    for at in range(len(rows)):
        try:
            found.append({column: _shown(value) for column, value in rows[at].items()})
        except (ValueError, OSError):
            found.append({"name": rows.remove_columns("image")[at]["name"], "image": "error"})
    del rows
    shutil.rmtree(".cache", ignore_errors=True)
    return found


def _shown(value: object) -> object:
    match value:
        case list():
            return [_shown(one) for one in value]
        case Pixels.Image():
            return {"size": list(value.size), "pixel": value.convert("RGB").tobytes().hex()[:6]}
    return value


def _pixels(color: tuple[int, int, int]) -> Pixels.Image:
    return Pixels.new("RGB", (2, 3), color)


def _encoded(kind: str, color: tuple[int, int, int]) -> bytes:
    out = io.BytesIO()
    _pixels(color).save(out, kind)
    return out.getvalue()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
