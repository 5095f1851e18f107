"""The formats of records."""
