"""Finds what fills the seams: the entry points of every installed package, ours like anybody's.

It loads only what the contract names, so that a broken plug-in harms nobody who does not use it.
"""

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from runner.errors import ContractError
from runner.seams import OpenInput, OpenModel, OpenOutput, RecordFormat

INPUTS = "inferrun.stores.input"
OUTPUTS = "inferrun.stores.output"
PROTOCOLS = "inferrun.protocols"
FORMATS = "inferrun.formats"


def input_store(label: str) -> OpenInput:
    """The input store of a label under `input`."""
    return cast("OpenInput", _load(INPUTS, label, field=f"input.{label}"))


def output_store(label: str) -> OpenOutput:
    """The output store of a label under `output`."""
    return cast("OpenOutput", _load(OUTPUTS, label, field=f"output.{label}"))


def model_protocol(name: str) -> OpenModel:
    """The protocol that `kserve.modelVersion` names."""
    return cast("OpenModel", _load(PROTOCOLS, name, field="kserve.modelVersion"))


def record_format(name: str, field: str) -> RecordFormat:
    """The record format of a name; `field` is where the contract gives it."""
    return cast("RecordFormat", _load(FORMATS, name, field=field))


def names(group: str) -> Sequence[str]:
    """What is installed in a group, sorted."""
    return sorted({point.name for point in entry_points(group=group)})


def _load(group: str, name: str, *, field: str) -> object:
    found = [point for point in entry_points(group=group) if point.name == name]
    if not found:
        raise ContractError(f"{field}: {name!r} is not known here; allowed: {', '.join(names(group)) or 'nothing'}")
    _refuse_ambiguity(found, field=field)
    try:
        loaded: object = found[0].load()
    except (ImportError, AttributeError) as error:
        raise ContractError(f"{field}: the package that provides {name!r} does not load: {error}") from error
    return loaded


def _refuse_ambiguity(found: Sequence[EntryPoint], *, field: str) -> None:
    values = sorted({point.value for point in found})
    if len(values) > 1:
        raise ContractError(f"{field}: several packages provide {found[0].name!r} ({', '.join(values)}); install one")
