"""What shim and worker share: settings, installation, defaults for runs, the status they write."""
