"""Launches: what a run is compiled to, its Jobs and Pods, and what their states say. Pure."""
