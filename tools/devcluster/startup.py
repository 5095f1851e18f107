"""Starts one component and waits until it is ready."""

from functools import partial

from . import network
from .components import Component
from .console import info, step
from .layout import LAYOUT, Layout
from .processes import ProcessRecords, start, stop, wait_ready, wait_until

PORT_RELEASE_SECONDS = 5


def start_component(component: Component, layout: Layout = LAYOUT) -> None:
    """Start a component unless it is already running with the same settings."""
    records, log = ProcessRecords(layout.process_records), layout.logs / f"{component.name}.log"
    fingerprint = component.fingerprint()
    if (
        records.running(component.name) is not None
        and records.fingerprint(component.name) != fingerprint
    ):
        info(f"  restarting {component.name}, because its settings have changed")
        stop(component.name, records=records)
    _wait_for_readiness_or_exit(component, records)
    if records.running(component.name) is not None:
        wait_ready(component.name, component.ready, records=records, log=log, seconds=0)
        return
    _write_files(component)
    for address, port in component.listens:
        # A process that has just been stopped may hold its ports a little longer.
        wait_until(partial(network.is_free, address, port), seconds=PORT_RELEASE_SECONDS)
        network.require_free(component.name, address, port)
    with step(f"start {component.name}"):
        start(
            component.name,
            component.command,
            records=records,
            log=log,
            extra_env=component.environment,
            fingerprint=fingerprint,
        )
        wait_ready(
            component.name, component.ready, records=records, log=log, seconds=component.seconds
        )


def running(layout: Layout = LAYOUT) -> list[str]:
    """Names of the recorded processes that are running."""
    records = ProcessRecords(layout.process_records)
    return [name for name in records.names() if records.running(name) is not None]


def _wait_for_readiness_or_exit(component: Component, records: ProcessRecords) -> None:
    """A component that has just received a signal keeps running for a moment."""
    wait_until(
        lambda: records.running(component.name) is None or component.ready(),
        seconds=component.seconds,
    )


def _write_files(component: Component) -> None:
    for folder in component.folders:
        folder.mkdir(parents=True, exist_ok=True)
    for path, content in component.files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o600)
