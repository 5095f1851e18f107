"""Lists of objects to which anybody may add: they are read in pieces, and not without end."""

from inferrun.kube.client import KubeClient
from inferrun.kube.decoding import Page
from inferrun.kube.errors import PageTooLarge
from inferrun.kube.objects import PODS, SIZES, Object, Resource


class Pods(KubeClient):
    """Serves Pods of a size, in the pages that are asked for."""

    def __init__(self, count: int, *, size: int) -> None:
        self._count = count
        self._size = size
        self.asked: list[int] = []

    async def page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        max_bytes: int | None = None,
        **params: str,
    ) -> Page:
        assert (resource, namespace, params["labelSelector"]) == (PODS, "team", "a=b")
        limit, start = int(params["limit"]), int(params.get("continue", "0"))
        self.asked.append(limit)
        names = range(start, min(start + limit, self._count))
        if len(names) * self._size > (max_bytes or 0):
            raise PageTooLarge("too large")
        items: list[Object] = [{"metadata": {"name": str(name)}} for name in names]
        more = str(names.stop) if names.stop < self._count else ""
        return Page(version="1", items=items, token=more, size=len(names) * self._size)


async def names_of(api: KubeClient) -> list[str]:
    return [
        pod["metadata"]["name"]
        async for pod in api.items(PODS, "team", page_size=100, labelSelector="a=b")
    ]


async def test_all_objects_are_read_page_by_page() -> None:
    api = Pods(250, size=10_000)
    assert await names_of(api) == [str(number) for number in range(250)]
    assert api.asked == [100, 100, 100]


async def test_pages_of_large_objects_have_fewer_of_them() -> None:
    api = Pods(12, size=1_000_000)
    assert await names_of(api) == [str(number) for number in range(12)]
    assert api.asked == [100, 10, *[1] * 12]


async def test_a_list_without_end_is_not_read_to_its_end() -> None:
    api = Pods(100_000, size=1_000_000)
    assert len(await names_of(api)) == -(-SIZES.items // 1_000_000)


async def test_an_empty_list_is_empty() -> None:
    assert await names_of(Pods(0, size=1)) == []
