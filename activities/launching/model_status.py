"""The object of KServe that serves a run's model, in the run's status. Pure."""

from typing import Any

from activities.launching.snapshot import CompiledRun
from inferrun.contract import ServiceRef
from inferrun.resources import ModelStatus
from inferrun.text import public_url


def model_status(compiled: CompiledRun) -> dict[str, Any] | None:  # Any: a model's fields
    """The model as a launch uses it; None for one with a fixed URL."""
    service = compiled.service
    if service is None:
        return None
    model = compiled.model
    return ModelStatus(
        kind=service.kind,
        name=service.name,
        namespace=service.namespace,
        url=public_url(model.model_url),
        model_name=model.model_name,
        protocol=model.protocol_version,
        generation=service.generation or None,
        revision=service.revision or None,
        warning=service.warning or None,
    ).model_dump()


def waiting_for(service: ServiceRef | None, *, before: ModelStatus | None) -> dict[str, Any] | None:  # Any: as above
    """The model that a launch waits for; None for a launch that waits for something else."""
    if service is None:
        return None
    names = {"kind": service.kind, "name": service.name, "namespace": service.namespace}
    return names if before is None else before.model_dump() | names


def at_the_end(before: ModelStatus | None, *, generation: int | None, revision: str) -> dict[str, Any] | None:
    """The model of a run that ends, with what the object is now; None for a run that used no such model."""
    if before is None or before.generation is None or generation is None:
        return None
    return {**before.model_dump(), "end_generation": generation, "end_revision": revision or None}


def drift(model: ModelStatus | None) -> str:
    """The changes of the object between the start of the last launch and the end of the run; empty if nothing has."""
    if model is None or model.generation is None or model.end_generation is None:
        return ""
    changes = []
    if model.generation != model.end_generation:
        changes.append(f"generation {model.generation} became {model.end_generation}")
    if model.revision != model.end_revision:
        changes.append(f"revision {model.revision or 'none'} became {model.end_revision or 'none'}")
    subject = f"{model.kind} {model.namespace}/{model.name} changed while the run used it"
    return f"{subject}: {' and '.join(changes)}; its predictions may come from two models" if changes else ""
