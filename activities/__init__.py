"""The activities: side effects of the workflows, each idempotent. One file per activity, named after it in snake case.

`rules` holds what they decide, as pure functions; `cluster` the code with which they read and write. Clients are passed in.
"""
