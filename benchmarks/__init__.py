"""Measurements against real servers; each is a package with a `run` of its own, started by `python -m benchmarks`."""
