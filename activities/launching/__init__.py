"""Launching: resolves what a run executes, and creates its ConfigMap and its Jobs."""
