"""What a run's status says of the object of KServe that serves its model. Pure."""

from typing import Any

from activities.rules.snapshot import CompiledRun
from inferrun.resources import ModelStatus, ObjectReference
from inferrun.text import public_url


def model_status(compiled: CompiledRun) -> dict[str, Any] | None:  # Any: a model's fields
    """The model as a launch uses it; None for one with a fixed URL."""
    model = compiled.model if compiled.snapshot.service is not None else None
    if model is None or model.service is None:
        return None
    service = model.service
    return ModelStatus(
        kind=service.kind,
        name=service.name,
        namespace=service.namespace,
        url=public_url(model.model_url),
        model_name=model.model_name,
        protocol=model.protocol_version,
        generation=service.generation or None,
        revision=service.revision or None,
    ).model_dump()


def waiting_for(
    service: ObjectReference | None, *, before: ModelStatus | None
) -> dict[str, Any] | None:  # Any: as above
    """The model that a launch waits for; None for a launch that waits for something else."""
    if service is None:
        return None
    names = {"kind": service.kind, "name": service.name, "namespace": service.namespace}
    known = before.model_dump() if before is not None else {}
    return {**known, **names}
