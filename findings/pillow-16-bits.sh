#!/usr/bin/env bash
# Pillow 13.0.0: convert("L") or convert("RGB") of a gray image of 16 bits, such as X-rays and depth maps, makes 255 of every pixel
# above 255 instead of scaling it, without an error: almost all of the image is white. OpenCV 5.0.0.93 scales it, as Pillow itself does with
# colours of 16 bits, which it reads as 8 bits.
# Output: pixels 0, 8192, 32768, 65535: Pillow [0, 255, 255, 255], OpenCV [0, 32, 128, 255]; in colours Pillow [0, 32, 128, 255]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pillow==13.0.0 opencv-python-headless==5.0.0.93 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import cv2
import numpy as np
import PIL
from PIL import Image

pixels = np.array([[0, 8192, 32768, 65535]], dtype="uint16")
cv2.imwrite("gray.png", pixels)
cv2.imwrite("colour.png", np.dstack([pixels] * 3))
pillow = np.asarray(Image.open("gray.png").convert("RGB"))[0, :, 0].tolist()
opencv = cv2.imread("gray.png", cv2.IMREAD_COLOR)[0, :, 0].tolist()
colour = np.asarray(Image.open("colour.png").convert("RGB"))[0, :, 0].tolist()
print(f"Pillow {PIL.__version__}, OpenCV {cv2.__version__}, mode {Image.open('gray.png').mode}")
print(f"pixels {', '.join(map(str, pixels[0]))}: Pillow {pillow}, OpenCV {opencv}; in colours Pillow {colour}")
assert pillow == [0, 255, 255, 255]
assert opencv == colour == [0, 32, 128, 255]
PYTHON
