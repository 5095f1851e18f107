"""Reference predictions: scikit-learn itself, called in a Pod that contains the model files.

They do not pass through the runner, the model server or the V2 protocol, so they can be used to
check all three.
"""

from __future__ import annotations

import json

from examples.demo.terminal import Terminal

Rows = list[list[float]]


def predictions(terminal: Terminal, model: str, rows: Rows) -> list[int]:
    output = terminal.read(
        f"kubectl exec -i -n kserve-test deploy/files -- python /models/predict.py {model}",
        stdin=json.dumps(rows),
        timeout=120,
    )
    classes: list[int] = json.loads(output)
    return classes
