"""How activities read and write the cluster."""
