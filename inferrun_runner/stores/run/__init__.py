"""The input label `run`: the committed results of another run, each of which is a record."""
