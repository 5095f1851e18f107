"""Trains the models of the examples while the image is built.

The data is scikit-learn's own copy of Fisher's 150 irises and of 1,797 handwritten digits, so
nothing is downloaded. All seeds are fixed, so every build produces the same models. `iris-forest`
is not a better model than `sklearn-iris`, but its 5,000 trees make it as slow as a large model.
`digits` takes images: a tensor [n, 3, 8, 8] of values between 0 and 1. Usage: train.py FOLDER
[MODEL...]
"""

import sys
from pathlib import Path

import joblib
import numpy as np
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer


def main() -> None:
    iris, digits = load_iris(), load_digits()
    images = np.repeat(digits.images[:, None] / 16, 3, axis=1)
    grey_rows = (
        FunctionTransformer(np.mean, kw_args={"axis": 1}),
        FunctionTransformer(np.reshape, kw_args={"shape": (-1, 64)}),
    )
    models = {
        "sklearn-iris": (LogisticRegression(max_iter=1000), iris.data, iris.target),
        "iris-forest": (
            RandomForestClassifier(n_estimators=5000, random_state=0),
            iris.data,
            iris.target,
        ),
        "digits": (
            make_pipeline(*grey_rows, LogisticRegression(max_iter=1000)),
            images,
            digits.target,
        ),
    }
    for name in sys.argv[2:] or models:
        model, rows, classes = models[name]
        model.fit(rows, classes)
        joblib.dump(model, Path(sys.argv[1]) / name / "model.joblib", compress=3)
        print(
            f"{name}: trained on {len(rows)} rows, accuracy on them {model.score(rows, classes):.3f}"
        )


if __name__ == "__main__":
    main()
