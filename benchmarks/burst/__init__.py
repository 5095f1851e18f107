"""How fast a run gets its Job: a burst of runs and lone runs, beside the bare creation of the same objects."""
