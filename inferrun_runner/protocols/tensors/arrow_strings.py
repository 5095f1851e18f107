"""The bytes of texts in a column. Imports pyarrow, so only runs with columns import it."""

import numpy
import pyarrow
from pyarrow import compute


def strings_of(column: pyarrow.BinaryArray) -> memoryview:
    """Return texts or bytes as V2 has them: each with its length in four bytes before it. No value
    becomes an object."""
    if not len(column):
        return memoryview(b"")
    sizes = compute.binary_length(column)
    heads = pyarrow.FixedSizeBinaryArray.from_buffers(
        pyarrow.binary(4), len(sizes), [None, sizes.buffers()[1]], offset=sizes.offset
    )
    joined = compute.binary_join_element_wise(
        heads.cast(pyarrow.binary()), column, pyarrow.scalar(b"")
    )
    _, offsets, content = joined.buffers()
    first, *_, last = numpy.frombuffer(offsets, "<i4")[
        joined.offset : joined.offset + len(joined) + 1
    ].tolist()
    return memoryview(content)[first:last] if content is not None else memoryview(b"")
