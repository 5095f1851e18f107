"""The activities: side effects of the workflows, each idempotent. One file per activity, named
after it in snake case."""
