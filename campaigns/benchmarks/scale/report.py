"""The report of a scale measurement, with the targets. Pure."""

from campaigns.benchmarks.scale.crowd import Figures
from campaigns.benchmarks.statistics import percentile

TARGET_MEMORY = {"shim": 512.0, "worker": 512.0}
"""MiB, with ten thousand waiting and two thousand running runs."""

TARGET_TO_JOB = 1.0
TARGET_DEADLINE = 5.0
TARGET_END_P95 = 2.0
TARGET_AFTER_KILL = 10.0
TARGET_RESTART = 60.0


def lines(figures: Figures, *, waiting: int, running: int) -> list[str]:
    """The report, without the description of the machine."""
    memory = [
        _line(f"memory of the {name}", value, unit="MiB", limit=TARGET_MEMORY[name.split()[0]])
        for name, value in figures.memory.items()
    ]
    restart = [
        _line(f"restart of both: {name}", value, limit=TARGET_RESTART)
        for name, value in figures.restart.items()
    ]
    return [
        f"{waiting} waiting and {running} running runs, default settings; created within {figures.creation_seconds:.0f} s",
        _line(
            "runs created per second",
            (waiting + running) / figures.creation_seconds,
            limit=0,
            unit="1/s",
        ),
        *(
            _line(f"CPU time of {name} per run", value, limit=0, unit="ms")
            for name, value in figures.cpu_per_run.items()
        ),
        _line("stored by Temporal per run", figures.bytes_per_run / 1024, limit=0, unit="KiB"),
        _line("connections to PostgreSQL", figures.connections, limit=0, unit=""),
        *memory,
        *(
            _line(f"create to Job, p{int(p * 100)}", percentile(figures.to_job, p), limit=0)
            for p in (0.5, 0.95, 0.99)
        ),
        _line("create to Job, slowest", max(figures.to_job), limit=TARGET_TO_JOB),
        _line("deadline to status, slowest", max(figures.deadline_delay), limit=TARGET_DEADLINE),
        _line("end to status, median", percentile(figures.ends, 0.5), limit=0),
        _line("end to status, p95", figures.end_p95, limit=TARGET_END_P95),
        _line("end to status, slowest", max(figures.ends), limit=0),
        _line(
            "kill -9 of the only worker to ends in the statuses",
            figures.ends_after_kill,
            limit=TARGET_AFTER_KILL,
        ),
        _line(
            "kill -9 of the only worker: CPU time of the new one", figures.cpu_after_kill, limit=0
        ),
        _line(
            "kill -9 of the leader of two shims, likewise",
            figures.ends_after_takeover,
            limit=TARGET_AFTER_KILL,
        ),
        *restart,
    ]


def _line(title: str, value: float, *, limit: float, unit: str = "s") -> str:
    digits = 0 if unit == "MiB" else 2
    verdict = (
        f"   (target at most {limit:g}: {'met' if value <= limit else 'MISSED'})" if limit else ""
    )
    return f"{title:52} {value:8.{digits}f} {unit}{verdict}"
