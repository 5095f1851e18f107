"""What judges traces: a real collector, compiled from its Go module, and a receiver that keeps the
spans that it passes on."""

import gzip
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from campaigns.benchmarks.processes import Launch, listens, serve
from tests.integration.runner.servers import serving
from tools.devcluster.binaries import COLLECTOR, build_missing, program_dir

START_SECONDS = 60


@dataclass(frozen=True)
class SeenSpan:
    """A span as it was received; ids in hexadecimal digits, times in nanoseconds."""

    service: str
    trace: str
    id: str
    parent: str
    name: str
    start: int
    end: int
    is_error: bool
    attributes: dict[str, Any]  # Any: strings and numbers


@dataclass
class Receiver:
    """Receives spans by OTLP over HTTP with protobuf, compressed or not."""

    url: str = ""
    spans: list[SeenSpan] = field(default_factory=list)

    def named(self, name: str) -> list[SeenSpan]:
        """The spans with this name, in the order of their start."""
        return sorted(
            (span for span in self.spans if span.name == name), key=lambda span: span.start
        )

    def problems(self) -> list[str]:
        """Traces without exactly one root, and spans whose parent was not received."""
        roots: dict[str, set[str]] = defaultdict(set)
        ids = {(span.trace, span.id) for span in self.spans}
        for span in self.spans:
            roots[span.trace] |= set() if span.parent else {span.id}
        orphans = [
            f"{span.name} of {span.attributes.get('inferrun.run.name', span.trace)} has no parent"
            for span in self.spans
            if span.parent and (span.trace, span.parent) not in ids
        ]
        return orphans + [
            f"trace {trace} has {len(found)} roots"
            for trace, found in roots.items()
            if len(found) != 1
        ]

    async def _receive(self, request: web.Request) -> web.Response:
        body = await request.read()
        body = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = _attributes(group.resource.attributes)["service.name"]
            for scope in group.scope_spans:
                self.spans += [_seen(str(service), span) for span in scope.spans]
        return web.Response(content_type="application/x-protobuf")


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    """Start a receiver on a free port."""
    found = Receiver()
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/traces", found._receive)
    async with serving(app) as found.url:
        yield found


@contextmanager
def collector(folder: Path, *, target: str) -> Iterator[str]:
    """Start a collector that passes spans on to `target`; yields its address."""
    build_missing(modules=(COLLECTOR,))

    def at(port: int) -> Launch:
        settings = {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
            "exporters": {"otlp_http": {"endpoint": target}},
            "service": {
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["otlp_http"]}},
                "telemetry": {"metrics": {"level": "none"}},
            },
        }
        file = folder / "collector.json"
        file.write_text(json.dumps(settings))
        return Launch(
            [str(program_dir(COLLECTOR) / "collector"), f"--config=file:{file}"], listens(port)
        )

    server, port = serve("collector", at, logs=folder, environment={}, seconds=START_SECONDS)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()


def _seen(service: str, span: Any) -> SeenSpan:  # Any: a message of protobuf
    return SeenSpan(
        service=service,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        name=span.name,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        is_error=span.status.code == 2,
        attributes=_attributes(span.attributes),
    )


def _attributes(pairs: Any) -> dict[str, Any]:  # Any: messages of protobuf
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
