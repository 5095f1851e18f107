"""Trains the models of the examples while the image is built.

The data is scikit-learn's own copy of Fisher's 150 irises, so nothing is downloaded. All seeds are fixed, so every build
produces the same models. `iris-forest` is not a better model than `sklearn-iris`, but its 5,000 trees make it as slow as a
large model. Usage: train.py FOLDER
"""

import sys
from pathlib import Path

import joblib
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression


def main() -> None:
    iris = load_iris()
    models = {
        "sklearn-iris": LogisticRegression(max_iter=1000),
        "iris-forest": RandomForestClassifier(n_estimators=5000, random_state=0),
    }
    for name, model in models.items():
        model.fit(iris.data, iris.target)
        joblib.dump(model, Path(sys.argv[1]) / name / "model.joblib", compress=3)
        print(f"{name}: trained on {len(iris.data)} rows, accuracy on them {model.score(iris.data, iris.target):.3f}")


if __name__ == "__main__":
    main()
