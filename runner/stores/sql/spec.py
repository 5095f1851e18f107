"""The storage object of the label `sql`: `credentialsRef{name}`, `query`, `key` and `values` of an input; `table`, `types` and
`flatten` of an output."""

from pydantic import Field, field_validator

from inferrun.formats.copy_text import quoted
from inferrun.plugins.storage import MountedRef, StorageSpec


class _Spec(StorageSpec):
    credentials_ref: MountedRef = Field(alias="credentialsRef")


class SqlInputSpec(_Spec):
    """The query whose rows are the records."""

    query: str = Field(min_length=1)
    key: tuple[str, ...] = Field(default=(), max_length=8)
    """The columns that identify a row, in the order in which the rows are read."""

    values: tuple[str, ...] = ()
    """What the query reads by `current_setting('inferrun.p1')` and so on; never part of a statement."""

    @field_validator("key", mode="before")
    @classmethod
    def _as_columns(cls, key: object) -> object:
        return ((key,) if key else ()) if isinstance(key, str) else key

    @field_validator("query")
    @classmethod
    def _is_one_statement(cls, query: str) -> str:
        text = query.strip().removesuffix(";").rstrip()
        if not text or "\0" in text:
            raise ValueError("must be one SELECT statement")
        return text


class SqlOutputSpec(_Spec):
    """The table of the predictions."""

    table: str = Field(min_length=1, max_length=127)
    types: dict[str, str] = Field(default_factory=dict)
    flatten: bool = False

    @field_validator("table")
    @classmethod
    def _is_name(cls, table: str) -> str:
        parts = table.split(".")
        if len(parts) > 2 or not all(part.isidentifier() and part.isascii() and len(part) < 64 for part in parts):
            raise ValueError(
                "must be a name of letters, digits and underscores, such as predictions or results.predictions"
            )
        return table

    @property
    def tables(self) -> dict[str, str]:
        """The names of the table and of the two beside it, as SQL."""
        *schema, name = self.table.split(".")
        names = {"table": name, "runs": "inferrun_runs", "chunks": "inferrun_chunks"}
        return {key: ".".join(map(quoted, (*schema, one))) for key, one in names.items()}
