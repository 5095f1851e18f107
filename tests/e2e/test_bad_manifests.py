"""Manifests that are wrong: refused by `kubectl apply`, or told on the status with the field's name; none hurts others."""

import json

from tests.e2e.stage import Space, run, until
from tests.integration.crds.manifests import CONFIG, REFUSED, TOLD_ON_STATUS, Manifest


def test_wrong_manifests_are_refused_or_told_and_disturb_no_other_run(space: Space) -> None:
    assert len(REFUSED) + len(TOLD_ON_STATUS) >= 30
    for number, wrong in enumerate(REFUSED):
        body = wrong.resource(name=f"refused-{number}", namespace=space.name)
        done = space.stage.try_kubectl("apply", "-f", "-", given=json.dumps(body))
        assert done.returncode != 0, f"{wrong.title} was accepted"
        assert wrong.field in done.stderr, f"{wrong.title}: {done.stderr}"
    named = [(f"told-{number}", wrong) for number, wrong in enumerate(TOLD_ON_STATUS)]

    items = [wrong.resource(name=name, namespace=space.name) for name, wrong in named]
    # Server-side, since one is too large for the annotation that a client-side apply leaves.
    space.kubectl(
        "apply", "--server-side", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    )
    space.apply(run("good", "actor"))

    space.wait_for("good", phase="Succeeded", seconds=60)
    until(
        lambda: all(_is_told(space, name, wrong) for name, wrong in named),
        seconds=15,
        what="each mistake is told",
        now=lambda: [wrong.title for name, wrong in named if not _is_told(space, name, wrong)],
    )


def _is_told(space: Space, name: str, wrong: Manifest) -> bool:
    kind = "inferenceconfig" if wrong.kind == CONFIG else "inferencerun"
    status = (space.get(kind, name) or {}).get("status") or {}
    texts = [status.get("message", ""), *(item.get("message", "") for item in status.get("conditions", []))]
    return any(wrong.field in text and wrong.value in text for text in texts)
