"""The archive of a released chart: the files of deploy/helm/inferrun with the version and the
images of the release.

`helm package` writes the current time into its archives; here, equal files give equal bytes.
"""

import gzip
import io
import re
import tarfile
from collections.abc import Mapping

from tools.devcluster.build_context import files_of
from tools.devcluster.layout import CHECKOUT

FOLDER = CHECKOUT / "deploy" / "helm" / "inferrun"


def package(*, version: str, images: Mapping[str, str], seconds: int) -> bytes:
    """A `.tgz` whose values name `images` in place of `localhost/KEY:dev`; `seconds` is the time of
    its files.

    Raises ValueError if the chart's values do not name such an image exactly once.
    """
    files = {str(path): (FOLDER / path).read_bytes() for path in sorted(files_of(FOLDER))}
    metadata, values = files["Chart.yaml"].decode(), files["values.yaml"].decode()
    files["Chart.yaml"] = re.sub(
        r"(?m)^(version|appVersion): .*$", rf"\1: {version}", metadata
    ).encode()
    for repository, reference in images.items():
        values, replaced = re.subn(f"localhost/{repository}:dev", reference, values)
        if replaced != 1:
            raise ValueError(
                f"values.yaml names localhost/{repository}:dev {replaced} times, and not once"
            )
    files["values.yaml"] = values.encode()
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=seconds) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{FOLDER.name}/{name}")
            entry.size, entry.mtime = len(content), seconds
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
