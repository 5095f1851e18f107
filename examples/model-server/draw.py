"""Writes images of handwritten digits, those of scikit-learn in four times their size, as portable
graymaps.

The name of a file begins with the digit that it shows: 7-0042.pgm. Usage: draw.py NUMBER FOLDER
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits


def main() -> None:
    number, folder = int(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    for i, (image, digit) in enumerate(zip(digits.images[:number], digits.target, strict=False)):
        pixels = np.kron(image * 255 / 16, np.ones((4, 4))).astype(np.uint8)
        height, width = pixels.shape
        (folder / f"{digit}-{i:04}.pgm").write_bytes(
            f"P5 {width} {height} 255\n".encode() + pixels.tobytes()
        )


if __name__ == "__main__":
    main()
