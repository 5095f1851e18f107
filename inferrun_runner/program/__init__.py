"""One run from its contract to its result."""
