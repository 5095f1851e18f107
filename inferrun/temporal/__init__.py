"""Temporal as every process of ours uses it: one plugin, one way to connect, the search attributes."""
