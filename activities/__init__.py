"""Side effects of the workflows, each idempotent; clients are handed in."""
