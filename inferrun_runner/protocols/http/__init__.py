"""Servers to which any JSON is posted."""
