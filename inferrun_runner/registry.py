"""Finds stores, protocols and formats: ours in a table, those of other packages by their entry
points.

Only what the contract names is loaded, so a plug-in that fails to load affects only the runs that
use it.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from inferrun import formats
from inferrun.plugins import ContractError, OpenInput, OpenModel, OpenOutput, RecordFormat
from inferrun.stores import STORES
from inferrun.stores.dataset import unknown_format, unwritten_format

INPUTS: Final = "inferrun.stores.input"
OUTPUTS: Final = "inferrun.stores.output"
PROTOCOLS: Final = "inferrun.protocols"
FORMATS: Final = formats.GROUP
GROUPS: Final = (INPUTS, OUTPUTS, PROTOCOLS, FORMATS)

BUILT_IN: Final = (
    EntryPoint("file", "inferrun_runner.stores.file.input:open_input", INPUTS),
    EntryPoint("s3", "inferrun_runner.stores.objects.s3:open_input", INPUTS),
    EntryPoint("gcs", "inferrun_runner.stores.objects.gcs:open_input", INPUTS),
    EntryPoint("azure", "inferrun_runner.stores.objects.azure:open_input", INPUTS),
    EntryPoint("http", "inferrun_runner.stores.http.input:open_input", INPUTS),
    EntryPoint("sql", "inferrun_runner.stores.sql.input:open_input", INPUTS),
    EntryPoint("run", "inferrun_runner.stores.run.input:open_input", INPUTS),
    EntryPoint("file", "inferrun_runner.stores.file.output:open_output", OUTPUTS),
    EntryPoint("s3", "inferrun_runner.stores.objects.s3:open_output", OUTPUTS),
    EntryPoint("gcs", "inferrun_runner.stores.objects.gcs:open_output", OUTPUTS),
    EntryPoint("azure", "inferrun_runner.stores.objects.azure:open_output", OUTPUTS),
    EntryPoint("sql", "inferrun_runner.stores.sql.output:open_output", OUTPUTS),
    EntryPoint("v1", "inferrun_runner.protocols.v1.rest:open_v1", PROTOCOLS),
    EntryPoint("v2", "inferrun_runner.protocols.v2.rest:open_v2", PROTOCOLS),
    EntryPoint("grpc-v2", "inferrun_runner.protocols.v2.grpc_client:open_grpc", PROTOCOLS),
    EntryPoint("openai", "inferrun_runner.protocols.openai.rest:open_openai", PROTOCOLS),
    EntryPoint("http", "inferrun_runner.protocols.http.rest:open_http", PROTOCOLS),
    *formats.BUILT_IN,
)


class Registry:
    """What can be loaded. Other packages are searched once, because that reads a file of each
    package that is installed."""

    def __init__(self) -> None:
        installed = entry_points()
        self._points = [
            *BUILT_IN,
            *(point for group in GROUPS for point in installed.select(group=group)),
        ]

    def input_store(self, label: str) -> OpenInput:
        """Load the input store for a label under `input`."""
        return cast("OpenInput", self._load(INPUTS, label, field=f"input.{label}"))

    def output_store(self, label: str) -> OpenOutput:
        """Load the output store for a label under `output`."""
        field = f"output.{label}"
        if label in STORES and (misplaced := STORES[label].misplaced("output", field)):
            raise ContractError(str(misplaced))
        return cast("OpenOutput", self._load(OUTPUTS, label, field=field))

    def model_protocol(self, name: str, *, field: str) -> OpenModel:
        """Load the protocol of a name; `field` is where the contract names it."""
        return cast("OpenModel", self._load(PROTOCOLS, name, field=field))

    def record_format(self, name: str, field: str) -> RecordFormat:
        """Load the record format of a name; `field` is where the contract names it."""
        known = tuple({point.name for point in self._points if point.group == FORMATS})
        if name not in known:
            raise ContractError(str(unknown_format(field, name, known=known)))
        found = cast("RecordFormat", self._load(FORMATS, name, field=field))
        if field.startswith("output") and not found.results_suffix:
            raise ContractError(str(unwritten_format(field, name)))
        return found

    def _load(self, group: str, name: str, *, field: str) -> object:
        points = [point for point in self._points if point.group == group]
        found = [point for point in points if point.name == name]
        if not found:
            allowed = ", ".join(sorted({point.name for point in points})) or "none"
            raise ContractError(f"{field}: unknown name {name!r}; allowed: {allowed}")
        if len(values := sorted({point.value for point in found})) > 1:
            raise ContractError(
                f"{field}: {name!r} is provided more than once ({', '.join(values)}); keep only one of these packages"
            )
        try:
            loaded: object = found[0].load()
        except (ImportError, AttributeError) as error:
            raise ContractError(
                f"{field}: the package that provides {name!r} cannot be loaded: {error}"
            ) from error
        return loaded
