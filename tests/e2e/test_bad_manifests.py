"""Invalid manifests: rejected by `kubectl apply` or reported on the status, without affecting other runs."""

import json

from tests.e2e.stage import Space, run, until
from tests.integration.crds.manifests import CONFIG, REJECTED, REPORTED_ON_STATUS, Manifest


def test_invalid_manifests_are_rejected_or_reported_and_affect_no_other_run(space: Space) -> None:
    assert len(REJECTED) + len(REPORTED_ON_STATUS) >= 30
    for number, wrong in enumerate(REJECTED):
        body = wrong.resource(name=f"rejected-{number}", namespace=space.name)
        done = space.stage.try_kubectl("apply", "-f", "-", given=json.dumps(body))
        assert done.returncode != 0, f"{wrong.title} was accepted"
        assert wrong.field in done.stderr, f"{wrong.title}: {done.stderr}"
    named = [(f"reported-{number}", wrong) for number, wrong in enumerate(REPORTED_ON_STATUS)]

    items = [wrong.resource(name=name, namespace=space.name) for name, wrong in named]
    # Server-side, since one is too large for the annotation that a client-side apply leaves.
    space.kubectl(
        "apply", "--server-side", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    )
    space.apply(run("good", "actor"))

    space.wait_for("good", phase="Succeeded", seconds=60)
    until(
        lambda: all(_is_reported(space, name, wrong) for name, wrong in named),
        seconds=30,
        what="each mistake is reported",
        now=lambda: [wrong.title for name, wrong in named if not _is_reported(space, name, wrong)],
    )


def _is_reported(space: Space, name: str, wrong: Manifest) -> bool:
    kind = "inferenceconfig" if wrong.kind == CONFIG else "inferencerun"
    status = (space.get(kind, name) or {}).get("status") or {}
    texts = [status.get("message", ""), *(item.get("message", "") for item in status.get("conditions", []))]
    return any(wrong.field in text and wrong.value in text for text in texts)
