"""Reads that several launches share, and what they keep in memory."""

import gc
import tracemalloc

import orjson

from activities.cluster.object_reads import BYTES_LIMIT, ObjectReads
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, MAX_FREE_FORM_BYTES, Object, Resource

KEPT_BYTES = 64 * 1024 * 1024
OBJECTS = 20


class LargeObjects(KubeClient):
    """Serves objects of almost the largest size that is read, with as many small texts as fit into it."""

    def __init__(self, *, size: int) -> None:
        self.reads = 0
        self._raw = orjson.dumps({"spec": [f"{number % 100:02}" for number in range((size - 20) // 5)]})
        assert len(self._raw) < MAX_FREE_FORM_BYTES

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:  # noqa: ARG002
        self.reads += 1
        found: Object = orjson.loads(self._raw)
        return found


async def read_all(reads: ObjectReads, *, count: int) -> None:
    for number in range(count):
        await reads.get(CONFIGS, "team", f"config-{number}", after=None)


async def test_the_largest_configs_are_not_all_kept() -> None:
    """A hundred of them would take more memory than a worker has."""
    reads = ObjectReads(LargeObjects(size=MAX_FREE_FORM_BYTES - 1024))
    gc.collect()
    tracemalloc.start()
    await read_all(reads, count=OBJECTS)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < KEPT_BYTES


async def test_the_object_that_was_read_last_is_kept_and_the_first_ones_are_forgotten() -> None:
    api = LargeObjects(size=MAX_FREE_FORM_BYTES - 1024)
    reads = ObjectReads(api)
    count = BYTES_LIMIT // MAX_FREE_FORM_BYTES + 2
    await read_all(reads, count=count)
    await reads.get(CONFIGS, "team", f"config-{count - 1}", after=0.0)
    assert api.reads == count
    await reads.get(CONFIGS, "team", "config-0", after=0.0)
    assert api.reads == count + 1


async def test_small_objects_are_kept() -> None:
    api = LargeObjects(size=1400)
    reads = ObjectReads(api)
    await read_all(reads, count=OBJECTS)
    for number in range(OBJECTS):
        await reads.get(CONFIGS, "team", f"config-{number}", after=0.0)
    assert api.reads == OBJECTS


async def test_an_object_that_is_read_again_counts_once() -> None:
    api = LargeObjects(size=MAX_FREE_FORM_BYTES - 1024)
    reads = ObjectReads(api)
    await reads.get(CONFIGS, "team", "other", after=None)
    for _ in range(OBJECTS):
        await reads.get(CONFIGS, "team", "same", after=None)
    await reads.get(CONFIGS, "team", "other", after=0.0)
    assert api.reads == OBJECTS + 1
