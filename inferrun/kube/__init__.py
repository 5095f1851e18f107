"""The API server, as the control side sees it; the only importer of the kubernetes package."""
