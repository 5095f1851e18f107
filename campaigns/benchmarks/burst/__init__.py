"""How quickly runs get their Jobs, for a burst and for single runs, compared with creating the same
objects directly."""
