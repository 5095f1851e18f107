"""Trains the model that the examples ask, while its image is built.

The data is scikit-learn's own copy of Fisher's 150 irises, so nothing is fetched; the solver is deterministic, so every
build of the image answers alike. Usage: train.py FILE
"""

import sys

import joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression


def main() -> None:
    iris = load_iris()
    model = LogisticRegression(max_iter=1000).fit(iris.data, iris.target)
    joblib.dump(model, sys.argv[1])
    print(f"trained on {len(iris.data)} rows, accuracy on them {model.score(iris.data, iris.target):.3f}")


if __name__ == "__main__":
    main()
