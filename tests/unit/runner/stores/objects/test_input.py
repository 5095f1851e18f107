"""Which objects below a prefix are read, and which are reported as not read."""

from dataclasses import dataclass
from typing import cast

from inferrun.formats.dataset import ListedFile
from inferrun.stores import S3Storage
from inferrun_runner.stores.objects.bucket import Bucket
from inferrun_runner.stores.objects.input import _find


@dataclass(frozen=True)
class Listing:
    """A bucket with some objects, as the client lists them: without the slash at the end of a
    key."""

    keys: tuple[str, ...]

    def head(self, _key: str) -> None:
        """There is no object of the name of the folder."""

    def list_below(self, prefix: str) -> list[ListedFile]:
        return [ListedFile(key, 1, "") for key in self.keys if f"{key}/".startswith(prefix)]


def test_the_object_of_the_folder_itself_which_consoles_create_is_not_reported() -> None:
    bucket = cast("Bucket", Listing(("in", "in/a.jsonl", "in/b.txt", "in/old", "in/old/c.jsonl")))
    for path in ("in", "in/"):
        spec = S3Storage.model_validate(
            {"bucket": "records", "path": path, "endpoint": "http://s3.test"}
        )
        folder, found = _find(bucket, spec, suffixes=(".jsonl",))
        assert [folder + one.name for one in found.objects] == ["in/a.jsonl"]
        assert [(one.reason, one.names) for one in found.skipped] == [
            ("OtherExtension", ("b.txt",)),
            ("NestedFolder", ("old",)),
        ]
