"""The watch shim: watches both resources and starts, signals or cancels workflows."""
