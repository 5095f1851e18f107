"""What several groups of activities use: Events, signatures and the metadata of objects."""
