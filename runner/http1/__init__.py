"""A client of HTTP/1.1 for model servers: whole requests, whole responses, and little CPU time per request."""
