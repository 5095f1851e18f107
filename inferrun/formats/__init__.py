"""The formats of records and results: how the runner and programs that read results see files.

Importing this package loads no format. Each one names the library that it needs when it is
imported.
"""

from importlib.metadata import EntryPoint
from typing import Final

GROUP: Final = "inferrun.formats"

BUILT_IN: Final = (
    EntryPoint("jsonl", "inferrun.formats.jsonl.format:JSONL", GROUP),
    EntryPoint("json", "inferrun.formats.json_array:JSON_ARRAY", GROUP),
    EntryPoint("csv", "inferrun.formats.csv.format:CSV", GROUP),
    EntryPoint("openai", "inferrun.formats.openai:OPENAI", GROUP),
    EntryPoint("parquet", "inferrun.formats.parquet.format:PARQUET", GROUP),
    EntryPoint("arrow", "inferrun.formats.arrow.format:ARROW", GROUP),
    EntryPoint("orc", "inferrun.formats.orc:ORC", GROUP),
    EntryPoint("files", "inferrun.formats.files.format:FILES", GROUP),
)
