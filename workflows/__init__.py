"""Deterministic workflow code: the steps of a run, of its clean-up and of a submission. It performs
no I/O."""
