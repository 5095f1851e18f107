"""Calls a model in this image without the server: reads rows from standard input and prints
classes, both as JSON.

The demo compares the results of runs with this output, which does not involve the runner or the V2
protocol. Usage: predict.py MODEL
"""

import json
import sys
from pathlib import Path

import joblib


def main() -> None:
    model = joblib.load(Path(__file__).parent / sys.argv[1] / "model.joblib")
    json.dump(model.predict(json.load(sys.stdin)).tolist(), sys.stdout)


if __name__ == "__main__":
    main()
