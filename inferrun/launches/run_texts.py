"""The two texts that say what a run executes, as a ConfigMap stores them, and their digest. Pure."""

import hashlib
from collections.abc import Mapping

CONTRACT_KEY = "contract.json"
SNAPSHOT_KEY = "snapshot.json"
"""The keys of a run's ConfigMap."""


def hash_of(texts: Mapping[str, str]) -> str:
    """The digest of the texts of a run's ConfigMap, by which a planted one is recognised."""
    digest = hashlib.sha256()
    for key in (CONTRACT_KEY, SNAPSHOT_KEY):
        text = texts.get(key, "").encode(errors="surrogatepass")
        digest.update(b"%d:" % len(text) + text)
    return digest.hexdigest()


def texts_of(data: object) -> dict[str, str]:
    """The two texts in the data of a ConfigMap, empty if they are missing."""
    found = data if isinstance(data, dict) else {}
    return {key: str(found.get(key) or "") for key in (CONTRACT_KEY, SNAPSHOT_KEY)}
