#!/usr/bin/env bash
# zstandard 0.25.0: ZstdDecompressor().decompress returns the first frame of several and ignores the rest, without an error, although
# the Zstandard format (RFC 8878) says that the content is that of all frames. Parallel compressors such as pzstd write several;
# stream_reader and zstandard.open read all of them.
# Output: 200 bytes in 2 frames; decompress 100, stream_reader 200, open 200
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check zstandard==0.25.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import zstandard

print("zstandard", zstandard.__version__)
packed = b"".join(zstandard.ZstdCompressor().compress(part * 100) for part in (b"a", b"b"))
with open("rows.zst", "wb") as out:
    out.write(packed)
whole = len(zstandard.ZstdDecompressor().decompress(packed))
streamed = len(zstandard.ZstdDecompressor().stream_reader(open("rows.zst", "rb")).read())
opened = len(zstandard.open("rows.zst", "rb").read())
print(f"200 bytes in 2 frames; decompress {whole}, stream_reader {streamed}, open {opened}")
assert (whole, streamed, opened) == (100, 200, 200)
PYTHON
