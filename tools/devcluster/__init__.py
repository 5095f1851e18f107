"""A real single-node Kubernetes cluster and a real Temporal server on one Linux machine, for
development, tests and the demo.

Development tooling: the product never imports it. It uses only the standard library, because it
runs before any virtual environment exists.
"""
