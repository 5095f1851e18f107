"""What the status says about a model that changed while a run used it."""

import pytest

from inferrun.launches.snapshot import drift
from inferrun.resources import ModelStatus

SUBJECT = "InferenceService models/iris changed while the run used it"
TWO_MODELS = "its predictions may come from two models"


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ({}, ""),
        ({"end_generation": 3, "end_revision": "a"}, ""),
        (
            {"end_generation": 4, "end_revision": "a"},
            f"{SUBJECT}: generation 3 became 4; {TWO_MODELS}",
        ),
        (
            {"end_generation": 3, "end_revision": "b"},
            f"{SUBJECT}: revision a became b; {TWO_MODELS}",
        ),
        (
            {"end_generation": 4, "end_revision": None},
            f"{SUBJECT}: generation 3 became 4 and revision a became none; {TWO_MODELS}",
        ),
    ],
    ids=["unknown", "unchanged", "generation", "revision", "both"],
)
def test_a_model_that_changed_is_named_with_what_changed(
    end: dict[str, object], expected: str
) -> None:
    began = ModelStatus(
        kind="InferenceService", name="iris", namespace="models", generation=3, revision="a"
    )
    assert drift(began.model_copy(update=end)) == expected
