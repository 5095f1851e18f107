"""A real Kubernetes node and a real Temporal server on one Linux machine, for development, tests and the demo.

Tooling only: the product never imports it. Standard library only, because it runs before any virtual environment exists.
"""
