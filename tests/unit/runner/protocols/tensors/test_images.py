"""Images become pixels of the size and the layout that the model takes; what is no image is an
error of its record."""

import io

import numpy
import pytest
from PIL import Image

from inferrun.plugins import ContractError
from inferrun_runner.protocols.tensors import images
from inferrun_runner.protocols.tensors.images import images_of
from tests.foreign.software import files_of, readings_of

RED = (255, 0, 51)


def encoded(kind: str = "PNG", *, size: tuple[int, int] = (4, 2), **more: object) -> bytes:
    """A red image whose upper left pixel is blue."""
    image = Image.new("RGB", size, RED)
    image.putpixel((0, 0), (0, 0, 255))
    out = io.BytesIO()
    image.save(out, kind, **more)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF"])
def test_channels_are_first_or_last_as_the_shape_says(kind: str) -> None:
    first, faults = images_of([encoded(kind)], dimensions=(3, 2, 4), datatype="UINT8")
    last, _ = images_of([encoded(kind)], dimensions=(2, 4, 3), datatype="UINT8")
    assert faults == {}
    pixels = last.reshape(2, 4, 3)
    assert pixels[0, 0].tolist() == [0, 0, 255]
    assert pixels[1, 3].tolist() == list(RED)
    assert numpy.array_equal(first.reshape(3, 2, 4), pixels.transpose(2, 0, 1))


def test_floats_are_between_0_and_1() -> None:
    found, _ = images_of([encoded(), encoded()], dimensions=(3, 2, 4), datatype="FP32")
    assert found.dtype == numpy.dtype("<f4")
    assert found.reshape(2, 3, 2, 4)[1, :, 1, 3].tolist() == [1.0, 0.0, pytest.approx(0.2)]


def test_an_image_gets_the_size_and_the_mode_of_the_model() -> None:
    found, faults = images_of([encoded("JPEG", size=(64, 64))], dimensions=(8, 8), datatype="UINT8")
    assert (faults, found.shape) == ({}, (64,))
    assert found[36] == pytest.approx(82, abs=2)


@pytest.mark.parametrize("name", readings_of("opencv"))
def test_pixels_of_16_bits_are_what_opencv_makes_of_them(name: str) -> None:
    found, faults = images_of(
        [(files_of("opencv") / name).read_bytes()], dimensions=(5, 5, 3), datatype="UINT8"
    )
    assert faults == {}
    assert found.reshape(5, 5, 3).tolist() == [row["pixels"] for row in readings_of("opencv")[name]]


@pytest.mark.parametrize("mode", ["I", "F"])
def test_pixels_without_a_largest_value_are_a_fault(mode: str) -> None:
    out = io.BytesIO()
    Image.new(mode, (4, 4), 70_000).save(out, "TIFF")
    _, faults = images_of([out.getvalue()], dimensions=(4, 4), datatype="UINT8")
    assert faults == {
        0: "an image whose pixels have 32 bits, of which it is not known what is white"
    }


def test_an_image_is_turned_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: the first row is the right side
    found, _ = images_of([encoded(size=(8, 6), exif=exif)], dimensions=(8, 6, 3), datatype="UINT8")
    assert found.reshape(8, 6, 3)[0, 5].tolist() == [0, 0, 255]


def test_the_struct_of_datasets_is_an_image() -> None:
    struct = {"bytes": encoded(), "path": "red.png"}
    found, faults = images_of([struct, encoded()], dimensions=(3, 2, 4), datatype="UINT8")
    assert faults == {}
    first, second = found.reshape(2, -1)
    assert numpy.array_equal(first, second)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        encoded()[:-30],
        encoded("JPEG")[:200],
        None,
        {"bytes": None, "path": "a.png"},
        {"path": "a.png"},
    ],
)
def test_what_is_no_image_is_a_fault_of_its_own(content: object) -> None:
    _, faults = images_of([encoded(), content, encoded()], dimensions=(3, 2, 4), datatype="UINT8")
    assert list(faults) == [1]
    assert "no image that can be decoded" in faults[1]


def test_an_image_of_too_many_pixels_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_PIXELS", 7)
    _, faults = images_of([encoded()], dimensions=(3, 2, 4), datatype="UINT8")
    assert faults == {0: "an image of 4 × 2 pixels, at most 7 are allowed"}


@pytest.mark.parametrize("dimensions", [(3, -1, -1), (5, 4, 2), (8,), (1, 3, 2, 4)])
def test_other_dimensions_are_refused(dimensions: tuple[int, ...]) -> None:
    with pytest.raises(ContractError, match="images cannot have the dimensions"):
        images_of([encoded()], dimensions=dimensions, datatype="UINT8")


@pytest.mark.parametrize("datatype", ["BOOL", "INT8", "BYTES", "BF16", ""])
def test_datatypes_that_cannot_hold_pixels_are_refused(datatype: str) -> None:
    with pytest.raises(ContractError, match="images cannot be decoded as"):
        images_of([encoded()], dimensions=(3, 2, 4), datatype=datatype)
