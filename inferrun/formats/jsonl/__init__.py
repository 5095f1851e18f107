"""The record format `jsonl`: one JSON value per line."""
