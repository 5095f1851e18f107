"""The archive of the pause image."""

import io
import json
import tarfile

from tools.devcluster.archives import single_file_archive


def test_an_archive_contains_its_image_name_and_the_program() -> None:
    with tarfile.open(fileobj=io.BytesIO(single_file_archive("pause", b"program"))) as archive:
        entry = archive.extractfile("manifest.json")
        layer = archive.extractfile("layer.tar")
        assert entry is not None
        assert layer is not None
        assert json.load(entry)[0]["RepoTags"] == ["localhost/inferrun/pause:dev"]
        with tarfile.open(fileobj=layer) as files:
            assert files.getmember("pause").mode == 0o755
