"""The record format `files`: each file is a record."""
