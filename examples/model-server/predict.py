"""Asks a model in this image without its server: rows from standard input, classes to standard output, both JSON.

The demo compares what runs stored with this answer, which has passed neither the runner nor the V2 protocol.
Usage: predict.py MODEL
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
