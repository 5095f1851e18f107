"""Where and in which queue a run's Pods are placed, and how many there are. Pure."""

from collections.abc import Collection
from typing import Final

from pydantic import Field

from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.launches.verdict import Frozen
from inferrun.resources import InferenceConfig, InferenceRun
from inferrun.resources.placement import Placement
from inferrun.run_defaults import Defaults, matches
from inferrun.run_ref import RunRef

MAX_BYTES: Final = 2048
"""The size of all annotations that are passed on, keys included: they are part of the snapshot."""

_OWN: Final = (f"{wellknown.DOMAIN}/*", "krateo.io/*", "*.krateo.io/*")


class PodPlacement(Frozen):
    """What schedulers and queues read of a run's Pods."""

    placement: Placement = Placement()
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    shards: int = 1
    """Number of Pods of a launch."""


def placement_of(run: InferenceRun, config: InferenceConfig, *, defaults: Defaults) -> PodPlacement:
    """The placement of a run's Pods. A dry run, which reads only the first records, has a single
    one."""
    return PodPlacement(
        placement=config.spec.placement,
        labels=propagated_labels(run, allowed=defaults.propagated_labels),
        annotations=propagated_annotations(run, excluded=defaults.excluded_annotations),
        shards=1 if run.spec.dry_run else run.spec.shards or config.spec.shards or 1,
    )


def propagated_labels(run: InferenceRun, *, allowed: Collection[str]) -> dict[str, str]:
    """The labels with these keys: some, such as a priority, are not the user's to choose."""
    return {key: value for key, value in run.metadata.labels.items() if key in allowed}


def propagated_annotations(run: InferenceRun, *, excluded: Collection[str]) -> dict[str, str]:
    """The annotations whose key matches none of these patterns, nor is ours; as many as fit, in the
    order of their keys."""
    found: dict[str, str] = {}
    size = 0
    for key, value in sorted(run.metadata.annotations.items()):
        if matches(key, (*_OWN, *excluded)):
            continue
        size += len(key.encode()) + len(value.encode())
        if size > MAX_BYTES:
            break
        found[key] = value
    return found


def pod_fields(placement: PodPlacement, *, run: RunRef) -> Object:
    """Fields of the Pod. A single Pod is not spread."""
    fields: Object = placement.placement.to_manifest()
    spread = fields.pop("topologySpreadConstraints", [])
    if spread and placement.shards > 1:
        selector = {"matchLabels": {wellknown.LABEL_RUN_UID: run.uid}}
        fields["topologySpreadConstraints"] = [{**one, "labelSelector": selector} for one in spread]
    return fields
