"""Runs: what becomes of submissions. Pure."""
