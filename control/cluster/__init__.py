"""Objects of the cluster that shim and worker read and write alike."""
