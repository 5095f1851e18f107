"""Judging: how a launch ended, what its run records, and what is deleted afterwards."""
