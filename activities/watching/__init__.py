"""Watching: what a launch is doing, and what its status says of it."""
