"""Submitting: creates the runs of the front door and of schedules, and reports on them."""
