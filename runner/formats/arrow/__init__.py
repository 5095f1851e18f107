"""The format `arrow`."""
