"""Benchmarks against real servers: one package each, with a `run` function that `python -m
campaigns.benchmarks` calls."""
