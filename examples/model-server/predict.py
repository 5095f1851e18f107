"""Asks the model in this image without its server: rows from standard input, classes to standard output, both JSON.

The demo compares what a run stored with this answer, which has passed neither the runner nor the V2 protocol.
"""

import json
import sys

import joblib

MODEL = "/models/sklearn-iris/model.joblib"


def main() -> None:
    rows = json.load(sys.stdin)
    json.dump(joblib.load(MODEL).predict(rows).tolist(), sys.stdout)


if __name__ == "__main__":
    main()
