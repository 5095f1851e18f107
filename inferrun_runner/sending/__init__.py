"""Sends batches to the model server: retries, division, concurrency."""
