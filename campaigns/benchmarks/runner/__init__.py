"""Measures the runner beside a load generator that sends the same requests to the same server."""
