"""The storage label `krateo`: a data handler behind an HTTP API, as the Krateo controller's users have it."""
