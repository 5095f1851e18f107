"""Code shared by shim and worker: settings, installation id, defaults for runs, and run statuses."""
