"""Whether a run can be divided among several Pods. Pure."""

from collections.abc import Iterable

from inferrun.stores import End, shared_labels


def shard_obstacle(
    shards: int,
    *,
    image: str | None,
    input_labels: Iterable[str],
    output_labels: Iterable[str],
    canary_records: int | None,
) -> str:
    """Why a run cannot be divided among that many Pods, with the fix; empty if it can. `image` is
    that of a custom runner."""
    if shards <= 1:
        return ""
    if image is not None:
        return f"more than 1 requires the built-in runner, but the InferenceConfig names the image {image!r}"
    ends: tuple[tuple[End, Iterable[str]], ...] = (
        ("input", input_labels),
        ("output", output_labels),
    )
    for side, labels in ends:
        allowed = shared_labels(side)
        if (other := next((label for label in labels if label not in allowed), None)) is not None:
            return f"more than 1 requires an {side} of the label {' or '.join(allowed)}, but spec.storage.{side} has {other}"
    if canary_records:
        return f"more than 1 is not allowed together with spec.canaryRecords ({canary_records}); remove one of them"
    return ""
