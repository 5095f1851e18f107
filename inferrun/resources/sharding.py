"""What a run that is divided among several Pods requires. Pure."""

from collections.abc import Iterable
from typing import Final

from inferrun.resources.storage import FILE_LABEL, S3_LABEL

SHARED_LABELS: Final = (FILE_LABEL, S3_LABEL)
"""The labels whose stores several Pods can share: every Pod reads the same ranges, and each chunk is committed once."""


def shard_obstacle(
    shards: int,
    *,
    image: str | None,
    input_labels: Iterable[str],
    output_labels: Iterable[str],
    canary_records: int | None,
) -> str:
    """Why a run cannot be divided among that many Pods, with the fix; empty if it can. `image` is that of a custom runner."""
    if shards <= 1:
        return ""
    if image is not None:
        return f"more than 1 requires the built-in runner, but the InferenceConfig names the image {image!r}"
    for side, labels in (("input", input_labels), ("output", output_labels)):
        if (other := next((label for label in labels if label not in SHARED_LABELS), None)) is not None:
            allowed = " or ".join(SHARED_LABELS)
            return f"more than 1 requires an {side} of the label {allowed}, but spec.storage.{side} has {other}"
    if canary_records:
        return f"more than 1 is not allowed together with spec.canaryRecords ({canary_records}); remove one of them"
    return ""
