"""The stores: one declaration each, from which everything that knows about the options of a store
is derived.

Importing this package imports no client of a server.
"""

from typing import Final

from inferrun.stores.azure import AzureStorage
from inferrun.stores.buckets import ObjectStorage
from inferrun.stores.dataset import FolderStorage
from inferrun.stores.declaration import End, Store
from inferrun.stores.file import FileStorage
from inferrun.stores.gcs import GcsStorage
from inferrun.stores.http import HttpStorage
from inferrun.stores.krateo import KrateoStorage
from inferrun.stores.run import RunStorage
from inferrun.stores.s3 import S3Storage
from inferrun.stores.sql import SqlStorage

__all__ = [
    "FOLDER_LABELS",
    "OBJECT_STORES",
    "READABLE_LABELS",
    "SCHEMA_STORES",
    "STORES",
    "AzureStorage",
    "End",
    "FileStorage",
    "FolderStorage",
    "GcsStorage",
    "HttpStorage",
    "KrateoStorage",
    "ObjectStorage",
    "RunStorage",
    "S3Storage",
    "SqlStorage",
    "Store",
    "shared_labels",
]

STORES: Final[dict[str, type[Store]]] = {
    store.label: store
    for store in (
        FileStorage,
        KrateoStorage,
        S3Storage,
        GcsStorage,
        AzureStorage,
        HttpStorage,
        SqlStorage,
        RunStorage,
    )
}
"""The labels of the built-in runner."""

SCHEMA_STORES: Final = {label: store for label, store in STORES.items() if store.is_in_schema}
"""The labels whose members have a schema in the definition, whatever the image."""

OBJECT_STORES: Final[dict[str, type[ObjectStorage]]] = {
    label: store for label, store in STORES.items() if issubclass(store, ObjectStorage)
}
"""The labels of objects in buckets and containers."""

FOLDER_LABELS: Final = tuple(
    label for label, store in STORES.items() if issubclass(store, FolderStorage)
)
"""The labels of files, on claims and in buckets."""

READABLE_LABELS: Final = tuple(label for label, store in STORES.items() if store.keeps_results)
"""The labels of outputs whose results can be read again."""


def shared_labels(end: End) -> tuple[str, ...]:
    """The labels whose stores several Pods can share at that end."""
    return tuple(label for label, store in STORES.items() if end in store.shared)
