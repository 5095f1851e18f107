"""Images as tensors: decoded, turned upright, and brought to the size and the layout of the model's
input. Pure.

Formats are those of Pillow. Imports it, so only runs with `decode: Image` load it.
"""

import io
from collections.abc import Sequence
from typing import Any, Final

import numpy
from PIL import Image, ImageOps

from inferrun.formats.bytes_in_json import bytes_in
from inferrun.plugins import ContractError
from inferrun_runner.protocols.tensors.datatypes import FLOATS, KINDS, Array, Faults

MAX_PIXELS: Final = 64 * 1024 * 1024
"""The pixels of an image before it gets the size of the model: a small file may be an image of any
size."""

_MODES: Final = {1: "L", 3: "RGB", 4: "RGBA"}

_OPEN_ENDED: Final = ("I", "F")
"""Modes whose pixels are integers and floats of 32 bits, such as heights: Pillow clips them to 0 to
255."""


def images_of(
    contents: Sequence[Any],  # Any: what a column has
    *,
    dimensions: tuple[int, ...],
    datatype: str,
) -> tuple[Array, Faults]:
    """Return the pixels of images one after the other, and why some are no images.

    The dimensions are [channels, height, width], [height, width, channels] or [height, width].
    Values of floats are between 0 and 1, others between 0 and 255. Raises ContractError for other
    dimensions, and for a datatype that cannot hold them.
    """
    height, width, channels = _sizes(dimensions)
    is_first = len(dimensions) == 3 and dimensions[0] == channels and dimensions[0] in _MODES
    if datatype not in {
        "UINT8",
        "FP16",
        "FP32",
        "FP64",
        "INT16",
        "INT32",
        "INT64",
        "UINT16",
        "UINT32",
        "UINT64",
    }:
        raise ContractError(
            f"tensors.inputs: images cannot be decoded as {datatype or 'any type'}; set datatype: UINT8 or FP32"
        )
    found = numpy.zeros((len(contents), *dimensions), KINDS[datatype])
    faults: Faults = {}
    for at, content in enumerate(contents):
        try:
            pixels = _pixels(_bytes_of(content), _MODES[channels], (width, height))
        except ValueError as error:
            faults[at] = str(error)
            continue
        if len(dimensions) == 3:
            pixels = pixels.reshape(height, width, channels)
        pixels = pixels.transpose(2, 0, 1) if is_first else pixels
        found[at] = pixels / 255 if datatype in FLOATS else pixels
    return found.ravel(), faults


def _bytes_of(content: Any) -> bytes:  # Any: what a column has
    """Return bytes as such, as base64, or in the struct of datasets (Hugging Face), whose path is
    not read; otherwise none."""
    if isinstance(content, dict) and "bytes" in content:
        content = content["bytes"]
    return content if isinstance(content, bytes) else bytes_in(content) or b""


def _sizes(dimensions: tuple[int, ...]) -> tuple[int, int, int]:
    """Return height, width and channels."""
    if all(size > 0 for size in dimensions):
        if len(dimensions) == 2:
            return dimensions[0], dimensions[1], 1
        if len(dimensions) == 3 and dimensions[0] in _MODES:
            return dimensions[1], dimensions[2], dimensions[0]
        if len(dimensions) == 3 and dimensions[2] in _MODES:
            return dimensions[0], dimensions[1], dimensions[2]
    raise ContractError(
        f"tensors.inputs: images cannot have the dimensions {list(dimensions)}; state shape as [-1, channels, height, width] or "
        "[-1, height, width, channels], with 1, 3 or 4 channels"
    )


def _pixels(content: bytes, mode: str, size: tuple[int, int]) -> Array:
    """Raises ValueError with the reason."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            width, height = image.size
            is_open_ended = image.mode in _OPEN_ENDED
            if width * height <= MAX_PIXELS and not is_open_ended:
                upright = ImageOps.exif_transpose(image)
                if upright.mode.startswith("I;16"):  # Pillow 13 makes 255 of all that is larger
                    upright = Image.fromarray((numpy.asarray(upright) >> 8).astype(numpy.uint8))
                found: Array = numpy.asarray(
                    upright.convert(mode).resize(size, Image.Resampling.BILINEAR)
                )
                return found
    except Exception as error:  # Pillow's decoders raise many kinds
        raise ValueError(f"no image that can be decoded ({type(error).__name__})") from error
    if is_open_ended:
        raise ValueError(
            "an image whose pixels have 32 bits, of which it is not known what is white"
        )
    raise ValueError(f"an image of {width} × {height} pixels, at most {MAX_PIXELS} are allowed")
