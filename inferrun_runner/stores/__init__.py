"""Where input is read from and output is committed to."""
