"""The storage label `krateo`: a data handler behind an HTTP API, as used with the Krateo
controller."""
