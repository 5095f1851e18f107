"""The stages between the seams: batches, their order, and the results of a chunk."""
