"""Generates records as lines of JSON: the 150 irises repeatedly, with noise. The output is
deterministic.

Usage: measure.py NUMBER
"""

import json
import sys

import numpy as np
from sklearn.datasets import load_iris


def main() -> None:
    number = int(sys.argv[1])
    generator = np.random.default_rng(seed=150)
    flowers = np.resize(load_iris().data, (number, 4)) + generator.normal(
        scale=0.2, size=(number, 4)
    )
    for i, flower in enumerate(flowers.clip(min=0.1).round(2).tolist(), 1):
        print(json.dumps({"custom_id": f"flower-{i:05}", "inputs": flower}))


if __name__ == "__main__":
    main()
