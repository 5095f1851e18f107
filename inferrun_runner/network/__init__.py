"""Connections: addresses that runs may reach, TLS, and what their failures mean."""
