"""The record format `csv`: a table of numbers."""
