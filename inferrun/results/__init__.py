"""Reads the results of a run as rows, or as a table of Arrow, pandas or polars. Needs the extra
`inferrun[results]`.

    results = read_results(run, directory=Path("/mnt/data"))
    frame = results.to_pandas()
    for row in results.errors: ...

Only what the run has committed is read: the parts that its manifest lists. The manifest is compared
with the digest in the run's status, and each part with the digest in the manifest, before anything
of it is returned.
"""

from typing import TYPE_CHECKING

from inferrun.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from inferrun.results.errors import (
        InputChanged,
        NoResults,
        PackageMissing,
        ResultsChanged,
        ResultsError,
        ResultsUnreachable,
        RunNotEnded,
    )
    from inferrun.results.reading import read_results
    from inferrun.results.table import PredictedRows, Row

__all__ = [
    "InputChanged",
    "NoResults",
    "PackageMissing",
    "PredictedRows",
    "ResultsChanged",
    "ResultsError",
    "ResultsUnreachable",
    "Row",
    "RunNotEnded",
    "read_results",
]

_MODULES = ("errors", "table", "reading")
"""Where the names are: errors are named by programs that may never read results."""


__getattr__ = lazy_exports(__name__, __all__, modules=_MODULES)
