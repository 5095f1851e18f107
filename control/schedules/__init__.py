"""Schedules: the account of their times, and the runs that they create. Pure."""
