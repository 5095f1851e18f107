"""What a run executes, and what follows from how that ended: contract, snapshot, Job, verdict, next
step. Pure.

The worker applies these rules in a cluster, and `inferrun.local` on one machine.
"""
