"""Watches the Jobs and Pods of the installation, reports on the runs' statuses and signals the
runs' workflows."""
