"""The documentation's tables, generated from what they are about; see `tools.docs_tables`."""
