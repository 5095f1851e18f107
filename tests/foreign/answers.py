"""Recorded answers of other people's servers: their files, and a server that plays them back.

A file has what the product asked, and what the real server answered. The answers depend on the
request only: one that was sent several times has several, of which the last one repeats.
"""

import json
import math
import re
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tests.foreign.software import root

_FOLDERS: Final = re.compile(r"(?<![\w:/])/(?:root|home|tmp|usr|opt)/[^\s\\\"']*/")

ANSWERS: Final = "answers"
KEPT: Final = (
    "Content-Type",
    "Content-Encoding",
    "Inference-Header-Content-Length",
    "Retry-After",
    "Location",
)
"""The headers of answers that matter."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer. A body is text, or `{"b64": …}`."""

    method: str
    path: str
    sent: Any  # Any: JSON
    status: int
    headers: Mapping[str, str]
    body: Any  # Any: JSON

    @property
    def form(self) -> tuple[object, ...]:
        """What a later version of the server must have in common with this one: numbers and texts
        may differ."""
        return (
            self.method,
            self.path,
            _canonical(self.sent),
            self.status,
            _form_of(_canonical(self.body)),
        )


@dataclass(frozen=True, slots=True)
class Recording:
    """What one server answered to the records of one run."""

    contract: Mapping[str, Any]  # Any: JSON
    rows: list[Any]  # Any: JSON
    expected: Any  # Any: JSON
    is_ready: bool = True
    url_path: str = ""
    """The path of the model's URL."""

    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def forms(self) -> list[str]:
        """The forms of all exchanges, whatever their order was, and what is expected."""
        forms = sorted({json.dumps(one.form) for one in self.exchanges})
        return [*forms, json.dumps([self.contract, self.rows, self.expected, self.is_ready])]

    def write(self, path: Path) -> None:
        """Write the file."""
        members = asdict(self)
        exchanges = ",\n".join(f" {_line_of(one)}" for one in members.pop("exchanges"))
        lines = [f"{_line_of(name)}: {_line_of(value)},\n" for name, value in members.items()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{{\n{"".join(lines)}"exchanges": [\n{exchanges}\n]}}\n')


def recordings() -> dict[str, Path]:
    """The files of all recordings, by `<software>/<name>`."""
    found = sorted(root().glob(f"*/{ANSWERS}/*.json"))
    return {f"{path.parents[1].name}/{path.stem}": path for path in found}


def read_recording(path: Path) -> Recording:
    """Read a file."""
    found = json.loads(path.read_text())
    return Recording(**{**found, "exchanges": [Exchange(**one) for one in found["exchanges"]]})


def forms_in(folder: Path) -> dict[str, list[str]]:
    """The forms of the recordings in the folder of a software, by their names."""
    return {
        path.name: read_recording(path).forms for path in sorted((folder / ANSWERS).glob("*.json"))
    }


def _line_of(value: Any) -> str:  # Any: JSON
    return json.dumps(value, ensure_ascii=False)


def shown(body: bytes) -> Any:  # Any: JSON
    """Return a body as it is in a file, without the folders in tracebacks, which are of one
    machine."""
    try:
        return _FOLDERS.sub("…/", body.decode())
    except UnicodeDecodeError:
        return {"b64": b64encode(body).decode()}


def _bytes_of(body: Any) -> bytes:  # Any: JSON
    return b64decode(body["b64"]) if isinstance(body, dict) else body.encode()


def _canonical(body: Any) -> Any:  # Any: JSON
    """The value of a body that is JSON; otherwise the body."""
    try:
        return json.loads(body) if isinstance(body, str) else body
    except ValueError:
        return body


def _form_of(value: Any) -> Any:  # Any: JSON
    """A value with the names of types in place of numbers and texts; a list with its different
    forms."""
    match value:
        case dict():
            return {name: _form_of(one) for name, one in sorted(value.items())}
        case list():
            return sorted({json.dumps(_form_of(one)) for one in value})
        case bool() | None:
            return value
        case int() | float() if math.isfinite(value):
            return "number"
    return type(value).__name__ if isinstance(value, str) else str(value)


@asynccontextmanager
async def playing(recording: Recording) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve the answers of a recording; yields the model's URL, and a list of the requests that
    were not recorded."""
    answers, unknown = defaultdict[str, list[Exchange]](list), list[str]()
    for one in recording.exchanges:
        answers[json.dumps([one.method, one.path, _canonical(one.sent)], sort_keys=True)].append(
            one
        )

    async def answer(request: web.Request) -> web.Response:
        asked = [request.method, request.path_qs, _canonical(shown(await request.read()))]
        key = json.dumps(asked, sort_keys=True)
        if not (left := answers.get(key)):
            unknown.append(key)
            return web.Response(status=404)
        found = left.pop(0) if len(left) > 1 else left[0]
        return web.Response(status=found.status, headers=found.headers, body=_bytes_of(found.body))

    app = web.Application(client_max_size=1 << 28)
    app.router.add_route("*", "/{path:.*}", answer)
    async with served(app) as url:
        yield f"{url}{recording.url_path}", unknown


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[str]:
    """Serve an application on loopback, and yield its URL."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
