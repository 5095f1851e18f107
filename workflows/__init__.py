"""Deterministic code: what a run, its clean-up and a submission do, step by step; never any I/O."""
