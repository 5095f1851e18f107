"""OpenCV: images with 8 and 16 bits a channel, and the pixels of 8 bits that it reads of them."""

import json
import sys
from pathlib import Path

import cv2
import numpy as np

OUT = Path(sys.argv[1])
FILES = OUT / "files"
FILES.mkdir(parents=True)
GRAY = np.linspace(0, 65535, 25).reshape(5, 5).astype("uint16")
IMAGES = {
    "gray8.png": (GRAY >> 8).astype("uint8"),
    "gray16.png": GRAY,
    "gray16.tiff": GRAY,
    "colour16.png": np.dstack([GRAY, GRAY.T, GRAY[::-1]]),
}

expected = {}
for name, pixels in IMAGES.items():
    cv2.imwrite(str(FILES / name), pixels)
    read = cv2.cvtColor(cv2.imread(str(FILES / name), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    expected[name] = [{"row": at, "pixels": row.tolist()} for at, row in enumerate(read)]
(OUT / "expected.json").write_text(json.dumps(expected) + "\n")
