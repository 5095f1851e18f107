"""Starts a Temporal development server beside an existing kind cluster, without root.

The server listens on loopback; a forwarder makes it reachable at one more address, this machine's
on kind's Docker network.
"""

import shutil
import sys

from . import kind
from .components import TEMPORAL_NAMESPACE, TEMPORAL_UI, Component, temporal
from .env_file import POD_TEMPORAL_ADDRESS
from .layout import PORTS, SOURCES, Layout
from .probes import accepts_tcp
from .processes import ProcessRecords, stop
from .startup import start_component

FORWARDER = "temporal-forwarder"


def forwarder(address: str) -> Component:
    script = str(SOURCES / "forward.py")
    return Component(
        name=FORWARDER,
        command=(sys.executable, script, address, str(PORTS.temporal), str(PORTS.temporal)),
        ready=accepts_tcp(address, PORTS.temporal),
        listens=((address, PORTS.temporal),),
    )


def start_for_kind(layout: Layout) -> dict[str, str]:
    """Start the server unless it is running; its values for the env file."""
    address = kind.host_address()
    for component in (temporal(layout), forwarder(address)):
        start_component(component, layout)
    return {
        "TEMPORAL_ADDRESS": f"127.0.0.1:{PORTS.temporal}",
        POD_TEMPORAL_ADDRESS: f"{address}:{PORTS.temporal}",
        "TEMPORAL_NAMESPACE": TEMPORAL_NAMESPACE,
        "TEMPORAL_UI_URL": TEMPORAL_UI,
    }


def stop_for_kind(layout: Layout) -> None:
    """Stop the server, if it is running, and delete its data."""
    for name in (FORWARDER, "temporal"):
        stop(name, records=ProcessRecords(layout.process_records))
    shutil.rmtree(layout.state, ignore_errors=True)
