"""What the protocol of a Delta table requires of readers and writers: which table features are
implemented here.

deltalake 1.6 refuses features that its log reader does not know, but not what its readers do with
files: with column mapping it returns nulls from a dataset, and it commits files without what
writers must add to them. Decisions only.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.schema import ArrayType, DataType, MapType, StructType, VariantType

_READABLE: Final = frozenset(
    {
        *(
            "columnMapping",
            "deletionVectors",
            "timestampNtz",
            "typeWidening",
            "typeWidening-preview",
            "v2Checkpoint",
        ),
        *("vacuumProtocolCheck", "variantType", "variantType-preview"),
        # of columns that are refused if they are used
        *("variantShredding", "variantShredding-preview"),
    }
)

_APPENDABLE: Final[Mapping[str, str]] = {
    "appendOnly": "",
    "changeDataFeed": "",
    "checkConstraints": "delta.constraints.",
    "columnMapping": "delta.columnMapping.mode",
    "deletionVectors": "",
    "generatedColumns": "delta.generationExpression",
    "invariants": "delta.invariants",
    "timestampNtz": "",
    "v2Checkpoint": "",  # nothing but an entry of the log is written to such a table
    "variantType": "",
    "variantType-preview": "",
}
"""Features of tables to which whole files can be added, unless a property of the table or of a
column begins so.

Others would also do no harm, such as typeWidening, but deltalake commits nothing to their tables:
`Unsupported table features required`. rowTracking numbers the rows of each file, and clustering
needs statistics of its columns.
"""

_OF_VERSIONS: Final = (
    (2, ("appendOnly", "invariants")),
    (3, ("checkConstraints",)),
    (4, ("changeDataFeed", "generatedColumns")),
    (5, ("columnMapping",)),
    (6, ("identityColumns",)),
    (8, ("minWriterVersion",)),
)
"""What writers of tables without a list of features must implement, from which version on."""

_FIX: Final = (
    "remove it (ALTER TABLE … DROP FEATURE …), or use a copy of the table that does not have it"
)


def unsupported(error: DeltaError) -> str:
    """Return which feature deltalake lacks, and what to do; empty if the error has another
    cause."""
    text = " ".join(str(error).split())
    if "catalog-managed" in text:
        text = "table feature catalogManaged: only the catalog knows the newest rows"
    return f"{text}; {_FIX}" if "catalogManaged" in text or "nsupported" in text else ""


def unreadable(table: DeltaTable) -> str:
    """Return why rows of a table cannot be read, and what to do; empty if they can."""
    unknown = sorted(set(table.protocol().reader_features or ()) - _READABLE)
    return f"the table feature {', '.join(unknown)} is not implemented; {_FIX}" if unknown else ""


def has_variant(kind: DataType) -> bool:
    """Return whether values of a type are, or contain, variants: bytes that nothing here
    decodes."""
    if isinstance(kind, StructType):
        return any(has_variant(field.type) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return has_variant(kind.element_type)
    if isinstance(kind, MapType):
        return has_variant(kind.value_type)
    return isinstance(kind, VariantType)


def unappendable(table: DeltaTable) -> str:
    """Return why files cannot be added to a table; empty if they can."""
    protocol = table.protocol()
    features = set(protocol.writer_features or ())
    if protocol.min_writer_version != 7:
        features = {
            name
            for first, names in _OF_VERSIONS
            if first <= protocol.min_writer_version
            for name in names
        }
    used = {
        name for name, value in _properties(table) if str(value).lower() not in ("false", "none")
    }
    missing = [
        name
        for name in sorted(features)
        if name not in _APPENDABLE
        or (_APPENDABLE[name] and any(one.startswith(_APPENDABLE[name]) for one in used))
    ]
    return (
        f"the table feature {', '.join(missing)} is not implemented for output; {_FIX}"
        if missing
        else ""
    )


def _properties(table: DeltaTable) -> Iterator[tuple[str, object]]:
    """Yield those of the table, of its columns, and of their members."""
    yield from table.metadata().configuration.items()
    waiting: list[Any] = [json.loads(table.schema().to_json())]  # Any: JSON
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield from (found.get("metadata") or {}).items()
            waiting += [
                found.get(key) for key in ("fields", "type", "elementType", "keyType", "valueType")
            ]
        elif isinstance(found, list):
            waiting += found
