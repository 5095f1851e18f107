"""What shim and worker share, and users never import: their process, watches, leases, and what they
ask of Temporal."""
