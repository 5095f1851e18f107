"""The record format `parquet`: columns of numbers."""
